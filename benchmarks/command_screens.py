"""``python -m benchmarks.command_screens``: pictures of a terminal in which the program runs.

The program is started in a pseudo-terminal, what it writes goes through a terminal emulator (pyte),
and the screen as it stands at some moment is drawn as SVG by rich.
"""

from __future__ import annotations

import argparse
import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyte
from rich.console import Console
from rich.text import Text
from sklearn.datasets import make_moons

WIDTH, HEIGHT = 90, 22

#: Where the screen is drawn: at the end, or when a screen is first like this.
Moment = Callable[[str], bool]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("docs/pictures"))
    folder = parser.parse_args().folder.resolve()
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        write_data(Path(place))
        fit = ["fit", "flowers.csv", "--target", "kind"]
        draw(fit, place, folder / "command_search.svg", lambda screen: share(screen) >= 30)
        draw(fit, place, folder / "command_fit.svg")
        train = ["train", "-c", "30", "-g", "10", "moons"]
        draw(train, place, folder / "command_training.svg", lambda screen: share(screen) >= 30)
        draw(train, place, folder / "command_train.svg")
        draw(["train", "damaged"], place, folder / "command_error.svg")


def write_data(folder: Path) -> None:
    """A table with names, a larger file of LIBSVM's, and one with a bad line."""
    draws = np.random.default_rng(0)
    X, y = make_moons(3000, noise=0.25, random_state=0)
    X = np.column_stack([100 + 40 * X[:, 0], X[:, 1], draws.normal(size=len(X))])
    lines = [
        f"{a:.3f},{b:.4f},{c:.3f},{'iris' if k else 'rose'}"
        for (a, b, c), k in zip(X, y, strict=True)
    ]
    (folder / "flowers.csv").write_text("\n".join(["height,leaf,noise,kind", *lines]) + "\n")
    X, y = make_moons(30_000, noise=0.3, random_state=0)
    rows = [f"{2 * k - 1:+d} 1:{a:.5f} 2:{b:.5f}" for (a, b), k in zip(X, y, strict=True)]
    (folder / "moons").write_text("\n".join(rows) + "\n")
    rows[41] = "+1 1:0.25 2:O.75"
    (folder / "damaged").write_text("\n".join(rows[:100]) + "\n")


def share(screen: str) -> int:
    """The percentage that the last bar shows."""
    found = [word for word in screen.split() if word.endswith("%") and word[:-1].isdigit()]
    return int(found[-1][:-1]) if found else 0


def draw(arguments: list[str], folder: str, picture: Path, moment: Moment | None = None) -> None:
    """Run the program, and draw its screen."""
    screen = pyte.Screen(WIDTH, HEIGHT)
    stream = pyte.ByteStream(screen)
    stream.feed(f"$ aesvm {' '.join(arguments)}\r\n".encode())
    shown = None
    for part in written(arguments, folder):
        stream.feed(part)
        if moment is not None and shown is None and moment("\n".join(screen.display)):
            shown = lines_of(screen)
    if moment is not None and shown is None:
        raise RuntimeError(f"{picture.name}: the screen was never as it is to be drawn.")
    lines = lines_of(screen) if shown is None else shown
    console = Console(record=True, width=WIDTH, file=io.StringIO(), color_system="truecolor")
    for line in lines:
        console.print(line)
    drawn = console.export_svg(title="aesvm")
    # the fonts that it would load from elsewhere: any of fixed width will do
    picture.write_text(re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL))
    print(picture)


def written(arguments: list[str], folder: str) -> Iterator[bytes]:
    """What the program writes to its terminal, as it comes."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "aesvm", *arguments],
        stdin=its,
        stdout=its,
        stderr=its,
        cwd=folder,
        env={**os.environ, "TERM": "xterm-256color"},
    )
    os.close(its)
    try:
        while part := os.read(ours, 4096):
            yield part
    except OSError:  # the program has ended, and its terminal with it
        pass
    finally:
        process.wait()
        os.close(ours)


def lines_of(screen: pyte.Screen) -> list[Text]:
    """The lines of a screen down to the last that has something in it, with their colours."""
    last = max((at for at, line in enumerate(screen.display) if line.strip()), default=0)
    lines = []
    for at in range(last + 1):
        line = Text()
        for column in range(screen.columns):
            cell = screen.buffer[at][column]
            color = cell.fg if cell.fg != "default" else "#c5c8c6"
            color = {"brown": "yellow", "brightblack": "bright_black"}.get(color, color)
            color = (
                f"#{color}" if len(color) == 6 and set(color) <= set("0123456789abcdef") else color
            )
            line.append(cell.data, style=f"{'bold ' if cell.bold else ''}{color}")
        line.rstrip()
        lines.append(line)
    return lines


if __name__ == "__main__":
    main()
