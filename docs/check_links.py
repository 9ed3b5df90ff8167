"""Whether every link inside the built site leads somewhere: ``python docs/check_links.py HTML``."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The places of a page that links can lead to, and its links and pictures."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.links: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.places.update(value for name in ("id", "name") if (value := given.get(name)))
        self.links.update(value for name in ("href", "src") if (value := given.get(name)))


def broken(folder: Path) -> list[str]:
    """Each as "page: link"."""
    pages = {path.resolve(): Page(path) for path in sorted(folder.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            place = unquote(parts.fragment)
            known = pages[target].places if target in pages else {place}
            if not target.exists() or (place and place not in known):
                found.append(f"{path.relative_to(folder.resolve())}: {link}")
    return found


if __name__ == "__main__":
    missing = broken(Path(sys.argv[1]))
    print("\n".join(missing) or "Every link inside the site leads somewhere.")
    sys.exit(bool(missing))
