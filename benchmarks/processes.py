"""The memory of a process and its descendants, and programs that are measured so."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import psutil

#: Seconds between two looks at the memory.
LOOK = 0.05


def tree(root: int) -> list[psutil.Process]:
    """A process and its descendants, as they are now."""
    with suppress(psutil.Error):
        process = psutil.Process(root)
        return [process, *process.children(recursive=True)]
    return []


def memory(root: int) -> int:
    """Bytes of memory of a process and its descendants, without what files and others share.

    Pages that a fork shares with its parent are counted for both: it is too much rather than too
    little.
    """
    return int(_total(root, _own_memory))


def processor_seconds(root: int) -> float:
    """Seconds that processors have worked for a process, its threads and its descendants."""
    return _total(root, lambda process: sum(process.cpu_times()[:4]))


class Watch:
    """The peak of that memory, looked at now and then: ``with Watch(pid) as watch: ...``."""

    def __init__(self, pid: int) -> None:
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
            self.peak = max(self.peak, memory(self.pid))


def measured(
    command: list[str], limit: float = threading.TIMEOUT_MAX, cwd: Path | None = None
) -> tuple[dict[str, Any] | None, int]:
    """What a program finds, or None where it is stopped after ``limit`` seconds; and its peak.

    It prints a line when it has imported and compiled, which is not measured; a JSON object when
    what is measured has ended; and more of them if it finds anything afterwards.
    """
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
        with suppress(psutil.Error):
            process.kill()


def _own_memory(process: psutil.Process) -> float:
    info = process.memory_info()
    return info.rss - getattr(info, "shared", 0)


def _total(root: int, of: Callable[[psutil.Process], float]) -> float:
    """Over a process and its descendants; those that have ended meanwhile count nothing."""
    total = 0.0
    for process in tree(root):
        with suppress(psutil.Error):
            total += of(process)
    return total
