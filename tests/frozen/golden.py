"""What our code answers for every golden vector of `tests/golden`, to the bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from frozen import adapter

GOLDEN = Path(__file__).parents[1] / "golden"


def golden(_: Path) -> dict[str, Any]:
    """By section, name and number of the case; every name of every file must be asked.

    Sections above the tenth are of what the frozen code did not have.
    """
    cases: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for path in sorted(GOLDEN.glob("*.json")):
        for section, entries in json.loads(path.read_text()).items():
            old = not section.startswith("_") and int(section.split("_")[0]) <= 10
            for name, entry in entries.items() if old else ():
                if isinstance(entry, dict) and "cases" in entry:
                    cases[section.split("_")[0], name] = entry["cases"]
    answers = adapter.golden_answers()
    unasked = set(cases) - set(answers)
    assert not unasked, f"golden vectors that nobody asks about: {sorted(unasked)}"
    return {
        f"golden {section} {name} {at}": adapter.plain(answers[section, name], case)
        for (section, name), found in sorted(cases.items())
        for at, case in enumerate(found)
    }
