"""Two sets of frozen answers against each other: what of them differs.

Numbers are equal to the bit, keys and texts are equal, but for what `prose.toml` lists: prose is
there or not, and what differs from run to run is only there.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

RULES = tomllib.loads((Path(__file__).parent / "prose.toml").read_text())


def rule_of(path: str) -> str:
    """How what stands at a path is compared: "equal", "prose" or "masked"."""
    key = next((part for part in reversed(path.split("/")) if not part.isdigit()), "")
    for rule in ("masked", "prose"):
        if key in RULES[rule]["keys"]:
            return rule
        if any(fnmatchcase(path, pattern) for pattern in RULES[rule]["paths"]):
            return rule
    return "equal"


def differences(frozen: Any, found: Any, path: str = "") -> Iterator[str]:
    """Every place where `found` is not what was frozen."""
    rule = rule_of(path)
    if rule == "masked":
        return
    if rule == "prose":
        # An empty text or list says that there is nothing to say: that is no matter of words.
        if bool(frozen) != bool(found):
            yield f"{path}: {_short(frozen)} became {_short(found)}"
        return
    if isinstance(frozen, dict) and isinstance(found, dict):
        for key in frozen:
            if key not in found:
                yield f"{path}/{key}: vanished"
            else:
                yield from differences(frozen[key], found[key], f"{path}/{key}")
        more = (f"{path}/{key}" for key in found if key not in frozen)
        yield from (f"{place}: appeared" for place in more if not _is_new(place))
    elif isinstance(frozen, list) and isinstance(found, list):
        if len(frozen) != len(found):
            yield f"{path}: {len(frozen)} entries became {len(found)}"
        for at, (was, now) in enumerate(zip(frozen, found, strict=False)):
            yield from differences(was, now, f"{path}/{at}")
    elif type(frozen) is not type(found) or repr(frozen) != repr(found):
        yield f"{path}: {_short(frozen)} became {_short(found)}"


def _is_new(path: str) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in RULES["new"]["paths"])


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) < 90 else shown[:87] + "..."


def trimmed(value: Any, path: str = "") -> Any:
    """What is kept of a value: prose as its first words, what is masked as nothing."""
    rule = rule_of(path)
    if rule == "masked":
        return None
    if rule == "prose" and value:
        return "..."
    if isinstance(value, dict):
        return {key: trimmed(each, f"{path}/{key}") for key, each in value.items()}
    if isinstance(value, list):
        return [trimmed(each, f"{path}/{at}") for at, each in enumerate(value)]
    return value


def write(answers: dict[str, Any], path: Path) -> None:
    """One line an entry, so that a difference is one line too."""
    lines = [
        f"{json.dumps(name)}: {json.dumps(value, separators=(',', ':'), ensure_ascii=False)}"
        for name, value in trimmed(answers).items()
    ]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def read(path: Path) -> dict[str, Any]:
    """What `write` wrote."""
    values: dict[str, Any] = json.loads(path.read_text())
    return values
