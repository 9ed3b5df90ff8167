"""``python -m aesvm.command`` is ``aesvm``."""

import sys

from aesvm.command.main import main

sys.exit(main())
