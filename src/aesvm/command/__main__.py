"""``python -m aesvm.command`` is ``aesvm``."""

from aesvm.command.main import start

start()
