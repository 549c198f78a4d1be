"""What is known of a function that is audited."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from sordino import checks
from sordino.intrinsic.source import Writer, digest, source_sha256

Train = Any


def described(train: Train, settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """What is known of a function: its name, its source where that can be read, its settings.

    What it carries beside its source (arguments of a partial, defaults, closed-over values, globals
    that it names, attributes of an object) counts as a setting, too: with others it is another
    training.

    Raises
    ------
    InvalidArgument
        If it carries what cannot be written down and no settings say what it is.
    """
    plain: Any = train
    parts: list[Any] = []
    while isinstance(plain, functools.partial):
        parts += [list(plain.args), dict(plain.keywords)]
        plain = plain.func
    named = plain if hasattr(plain, "__qualname__") else type(plain)
    return {
        "function": {
            "name": str(named.__qualname__),
            "source_sha256": source_sha256(named),
            "carries_sha256": _carries(plain, named, parts, settings),
            "settings": dict(settings or {}),
        }
    }


def _carries(
    plain: Any, named: Any, parts: list[Any], settings: Mapping[str, Any] | None
) -> str | None:
    """Digest of what a function carries; None if it cannot be written but settings name it."""
    writer = Writer(named)
    try:
        carried = [writer.value(each) for each in parts if each]
        if named is not plain and (own := getattr(plain, "__dict__", plain)):
            carried.append(writer.value(own))
        carried += (writer.beside_class if isinstance(named, type) else writer.beside)(named)
    except TypeError as error:
        if settings:
            return None
        hint = "Name what it depends on in spec={...}, so that another setting is another study."
        checks.fail("train", "[the function]", f"to carry plain values only, not {error}", hint)
    return digest(carried) if carried else None
