"""Records of comma-separated values: fields, of which quoted ones may hold anything.

Between quotes, delimiters and line ends are text, two quotes are one, and blanks are kept; around
other fields blanks are dropped. A record that is at fault is read to its end all the same, so
that no part of it is taken for another record.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

_NEWLINE = ord("\n")


class Record(NamedTuple):
    """The fields of a record, where it ends, and what is wrong with it, if anything is."""

    fields: list[bytes]
    end: int
    fault: str | None
    blank: bool


def read_record(block: bytes, begin: int, delimiter: str) -> Record | None:
    """The record that begins at a byte; None where the block ends within quotes.

    The block must end with a newline.
    """
    blanks, padding, ends = _patterns(delimiter)
    fields: list[bytes] = []
    fault = None
    quoted = False
    stop = begin - 1
    while stop < begin or block[stop] != _NEWLINE:
        at = padding.match(block, stop + 1).end()  # type: ignore[union-attr]
        quoted = block[at] == ord('"')
        field = b""
        if quoted:
            field, at = _quoted(block, at + 1)
            if at < 0:
                return None
        stop = ends.search(block, at).start()  # type: ignore[union-attr]
        rest = block[at:stop]
        if block[stop] == _NEWLINE:
            rest = rest.rstrip(b"\r")
        if not quoted:
            field = rest = rest.rstrip(blanks)
            if b"\r" in field:
                fault = fault or "it has a carriage return that ends no line"
        elif rest:
            shown = rest[:20].decode(errors="replace")
            fault = fault or f"it is not {delimiter!r}-separated: {shown!r} follows a closing quote"
        fields.append(field)
    return Record(fields, stop + 1, fault, blank=fields == [b""] and not quoted)


def _quoted(block: bytes, begin: int) -> tuple[bytes, int]:
    """What is quoted from a byte on, and where to go on; -1 where the quote is not closed."""
    at = begin
    while True:
        at = block.find(b'"', at)
        if at < 0:
            return b"", -1
        if block[at + 1] != ord('"'):
            return block[begin:at].replace(b'""', b'"'), at + 1
        at += 2


@cache
def _patterns(delimiter: str) -> tuple[bytes, re.Pattern[bytes], re.Pattern[bytes]]:
    """Blanks, any number of them, and the end of a field."""
    blanks = b" \t".replace(delimiter.encode(), b"")
    end = re.escape(delimiter.encode())
    return blanks, re.compile(b"[%s]*" % blanks), re.compile(b"[%s\n]" % end)
