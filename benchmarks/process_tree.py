"""The memory of a process and its descendants, and programs that are measured so."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from benchmarks.datasets import MissingError

#: Seconds between two looks at the memory.
LOOK = 0.05


def check() -> None:
    """Refuse where there is nothing to read the memory from."""
    if not Path("/proc/self/status").exists():
        raise MissingError("/proc/self/status, which tells the memory of a process on Linux")


def tree(root: int) -> list[int]:
    """A process and its descendants, as they are now."""
    children = defaultdict(list)
    for name in os.listdir("/proc"):
        if name.isdigit():
            children[_parent(name)].append(int(name))
    found = [root]
    for process in found:  # it grows meanwhile
        found += children[process]
    return found


def anonymous(root: int) -> int:
    """Bytes of anonymous memory of a process and its descendants.

    Pages that a fork shares with its parent are counted for both: it is too much rather than too
    little.
    """
    return sum(_anonymous(process) for process in tree(root))


def processor_seconds(root: int) -> float:
    """Seconds that processors have worked for a process, its threads and its descendants."""
    # user and system time, of the process and of children that it has waited for
    ticks = sum(
        int(ticks)
        for process in tree(root)
        for ticks in _text(f"/proc/{process}/stat").rpartition(b")")[2].split()[11:15]
    )
    return ticks / os.sysconf("SC_CLK_TCK")


def resident_peak() -> int:
    """The most bytes of this process that have been in memory at once, since it began."""
    # not ru_maxrss: that one starts from what the parent had when it forked
    lines = _text("/proc/self/status").splitlines()
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith(b"VmHWM"))


class Watch:
    """The peak of that memory, looked at now and then: ``with Watch(pid) as watch: ...``."""

    def __init__(self, pid: int) -> None:
        check()
        self.pid = pid
        self.peak = 0  #: bytes
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        ended = False
        while not ended:
            ended = self._ended.wait(LOOK)  # the last look is at the end
            self.peak = max(self.peak, anonymous(self.pid))


def measured(
    command: list[str], limit: float = threading.TIMEOUT_MAX, cwd: Path | None = None
) -> tuple[dict[str, Any] | None, int]:
    """What a program finds, or None where it is stopped after ``limit`` seconds; and its peak.

    It prints a line when it has imported and compiled, which is not measured; a JSON object when
    what is measured has ended; and more of them if it finds anything afterwards.
    """
    check()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=cwd) as process:
        assert process.stdout is not None
        clock = threading.Timer(limit, _kill, [process.pid])
        clock.daemon = True
        try:
            process.stdout.readline()
            started = time.perf_counter()
            clock.start()
            with Watch(process.pid) as watch:
                lines = [process.stdout.readline()]
            seconds = time.perf_counter() - started
            clock.cancel()
            lines += process.stdout
        except BaseException:
            _kill(process.pid)
            raise
        finally:
            clock.cancel()
    if process.returncode and seconds >= limit:
        return None, watch.peak
    if process.returncode or not lines[0]:
        raise RuntimeError(f"{command[1:]} failed: {process.returncode}")
    return {key: value for line in lines for key, value in json.loads(line).items()}, watch.peak


def _kill(root: int) -> None:
    for process in tree(root):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def _parent(process: str) -> int | None:
    # a name may have brackets and spaces of its own
    after_name = _text(f"/proc/{process}/stat").rpartition(b")")[2].split()
    return int(after_name[1]) if after_name else None


def _anonymous(process: int) -> int:
    lines = _text(f"/proc/{process}/status").splitlines()
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith(b"RssAnon"))


def _text(path: str) -> bytes:
    """Of a file about a process; nothing where that has ended."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""
