"""Python programs that tests start: they answer Ctrl-C, and end with their test.

A child is a session of its own, with the usual handling of signals wherever the tests were
started (``nohup`` ignores SIGHUP, a shell's ``&`` SIGINT). All of its session is killed at the
end of the test, whatever happened in it; and where the tests themselves are killed the child
notices, and ends its session by itself.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

#: Seconds that a child may take for anything: many times what a busy machine needs.
LIMIT = 300.0

#: What tells BLAS how many threads to use.
BLAS_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

_BEGIN = """
import os, runpy, signal, sys, threading, time

def end_with(parent):
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are the program's
    while os.getppid() == parent:
        time.sleep(0.5)
    os.killpg(0, signal.SIGKILL)

if os.getpid() != os.getpgrp():
    os.setsid()
signal.signal(signal.SIGINT, signal.default_int_handler)
for usual in (signal.SIGHUP, signal.SIGTERM):
    signal.signal(usual, signal.SIG_DFL)
threading.Thread(target=end_with, args=(int(sys.argv[1]),), daemon=True).start()
kind, program = sys.argv[2:4]
del sys.argv[1:4]
del end_with, usual
if kind == "script":
    sys.argv[0] = program
    runpy.run_path(program, run_name="__main__")
else:
    exec(compile(program, "<child>", "exec"), globals())
"""


def code(program: str, *arguments: object, options: tuple[str, ...] = ()) -> list[str]:
    """The command that runs a program given as text; options are Python's own."""
    return _command("code", program, arguments, options)


def script(path: object, *arguments: object) -> list[str]:
    """The command that runs a file."""
    return _command("script", str(path), arguments, ())


def _command(kind: str, program: str, arguments: tuple, options: tuple[str, ...]) -> list[str]:
    begin = [sys.executable, *options, "-c", _BEGIN, str(os.getpid()), kind, program]
    return begin + [str(argument) for argument in arguments]


@contextmanager
def started(
    command: list[str], env: dict[str, str] | None = None, **options: Any
) -> Iterator[subprocess.Popen]:
    """A child that runs until the block ends, with all that it starts itself."""
    one_thread = dict.fromkeys(BLAS_THREADS, "1")
    process = subprocess.Popen(
        command,
        env={**os.environ, **one_thread, **(env or {})},
        text=True,
        start_new_session=True,
        **options,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        process.wait()


def run(command: list[str], **options: Any) -> str:
    """What a child prints; it must end well, and in time."""
    with started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as process:
        printed, complaints = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, complaints
    return printed


def interrupt(process: subprocess.Popen, n_threads: int = 1) -> float:
    """Seconds from Ctrl-C until a child says something.

    Rarely an interrupt is lost inside Numba's handling of arguments: a user presses again. Where
    others have the processors, the child waits for them, which is not its fault: that is not
    counted.
    """
    sent, spent = time.monotonic(), _processor_seconds(process)
    process.send_signal(signal.SIGINT)
    while not select.select([process.stdout], [], [], 5.0)[0]:
        assert time.monotonic() - sent < LIMIT, f"no answer to Ctrl-C for {LIMIT:g} seconds"
        process.send_signal(signal.SIGINT)
    seconds, spent = time.monotonic() - sent, _processor_seconds(process) - spent
    return min(seconds, spent / n_threads) if spent else seconds


def _processor_seconds(process: subprocess.Popen) -> float:
    """What all threads of a process have had of the processors; zero where that is not known."""
    account = Path(f"/proc/{process.pid}/stat")
    if not account.exists():
        return 0.0
    user, system = account.read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def line(process: subprocess.Popen, limit: float = LIMIT) -> str:
    """The next line that a child prints, in time; nothing is read beyond it."""
    assert process.stdout is not None
    pipe, read = process.stdout.fileno(), b""
    while not read.endswith(b"\n"):
        ready, _, _ = select.select([pipe], [], [], limit)
        assert ready, f"the child has said nothing for {limit:g} seconds"
        byte = os.read(pipe, 1)
        if not byte:
            break
        read += byte
    return read.decode()
