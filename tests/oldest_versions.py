"""The oldest versions that pyproject.toml allows, as constraints of pip.

``make test-oldest`` runs the quick tests with them. Requirements without a lower bound are left
to pip.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"


def oldest(requirement: str) -> str | None:
    """Exactly the lower bound, with zeros where it has fewer than three numbers.

    Examples
    --------
    >>> oldest("dask[array]>=2025.1"), oldest("pandas")
    ('dask==2025.1.0', None)
    """
    match = re.match(r"([\w.-]+)(?:\[[^]]*\])?>=([\d.]+)", requirement)
    if match is None:
        return None
    numbers = [*match[2].split("."), "0", "0"][: max(3, match[2].count(".") + 1)]
    return f"{match[1]}=={'.'.join(numbers)}"


def main() -> None:
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"], *extras["dev"]]
    for own in (one for one in extras["dev"] if one.startswith("aesvm[")):
        needed += [one for extra in own[6:-1].split(",") for one in extras[extra]]
    print("\n".join(sorted({pin for one in needed if (pin := oldest(one))})))


if __name__ == "__main__":
    main()
