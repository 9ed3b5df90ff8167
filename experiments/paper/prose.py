"""Text with `code`, **bold** and [links](url), the same in HTML and in Markdown.

Everything else stands for itself: a star or an angle bracket is escaped in both.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape

_MARKUP = re.compile(
    r"`(?P<code>[^`]+)`"
    r"|\*\*(?P<bold>(?=\S).+?(?<=\S))\*\*"
    r"|\[(?P<label>[^\[\]]+)\]"
    # A scheme that runs something has no place in a report: such a link stays text.
    r"\((?P<url>(?:https?://|mailto:|(?![a-zA-Z][a-zA-Z0-9+.-]*:))(?:[^()\s]|\([^()\s]*\))+)\)"
)
_SPECIAL = re.compile(r"[\\`*\[\]<~$]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)|!$")
_OPENING = re.compile(r"^(?=[#>+=-])|(?<=^\d)(?=[.)])|(?<=^\d\d)(?=[.)])")


def paragraphs(text: str) -> list[str]:
    return [one_line(part) for part in re.split(r"\n\s*\n", text) if part.strip()]


def one_line(text: str) -> str:
    return " ".join(text.split())


def html(text: str) -> str:
    def marked(match: re.Match[str]) -> str:
        if match["code"]:
            return f"<code>{escape(match['code'])}</code>"
        if match["bold"]:
            return f"<strong>{html(match['bold'])}</strong>"
        return f'<a href="{escape(match["url"])}">{html(match["label"])}</a>'

    return _spans(one_line(text), escape, marked)


def markdown(text: str, opening: bool = False) -> str:
    """``opening``: the text begins a line, where a number or a dash could begin a list."""

    def marked(match: re.Match[str]) -> str:
        if match["code"]:
            return match[0]
        if match["bold"]:
            return f"**{markdown(match['bold'])}**"
        return f"[{markdown(match['label'])}]({match['url']})"

    text = _spans(one_line(text), lambda words: _SPECIAL.sub(r"\\\g<0>", words), marked)
    return _OPENING.sub(r"\\", text, count=1) if opening else text


def bold_markdown(text: str) -> str:
    """All of the text bold: stars within it would end that."""

    def marked(match: re.Match[str]) -> str:
        return match["bold"] or match[0]

    return f"**{markdown(_spans(one_line(text), str, marked))}**"


def plain(text: str) -> str:
    """The words alone."""

    def marked(match: re.Match[str]) -> str:
        return match["code"] or plain(match["bold"] or match["label"])

    return _spans(one_line(text), str, marked)


def _spans(text: str, words: Callable[[str], str], marked: Callable[[re.Match[str]], str]) -> str:
    parts, done = [], 0
    for match in _MARKUP.finditer(text):
        parts += [words(text[done : match.start()]), marked(match)]
        done = match.end()
    return "".join([*parts, words(text[done:])])
