"""``python -m aesvm`` is the program ``aesvm``."""

from aesvm.command.main import start

if __name__ == "__main__":
    start()
