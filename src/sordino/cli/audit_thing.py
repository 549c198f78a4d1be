"""Something of the user's own by its name: `package.module:name` or `file.py:name`."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from types import ModuleType
from typing import Any

from sordino import _files, checks
from sordino.errors import InvalidArgument

_FORM = "Pass package.module:name or file.py:name."


def named(option: str, text: str) -> Any:
    """The object that `text` names; what a file or a module does when loaded, it does.

    Raises
    ------
    InvalidArgument
        If there is no such module or name, or loading it fails; the sentence says which.
    """
    place, colon, name = text.rpartition(":")
    if not (place and colon and name):
        checks.fail(option, text, "to have a colon between the module and the name", _FORM)
    thing: Any = _module(option, text, place)
    for part in name.split("."):
        if not hasattr(thing, part):
            names = [each for each in vars(thing) if not each.startswith("_")]
            hint = f"It has: {', '.join(sorted(names)[:12])}." if names else ""
            checks.fail(option, text, f"to name something that {place} has", hint)
        thing = getattr(thing, part)
    return thing


def _module(option: str, text: str, place: str) -> ModuleType:
    try:
        if place.endswith(".py"):
            return _file(option, place)
        if "" not in sys.path and os.getcwd() not in sys.path:
            # As `python -m` does. A process of a pool gets the same path.
            sys.path.insert(0, os.getcwd())
        return importlib.import_module(place)
    except InvalidArgument:
        raise
    except ModuleNotFoundError as error:
        hint = f"Python says: {error}. It is looked for from here ({os.getcwd()}). {_FORM}"
        checks.fail(option, text, "to name a module that is here", hint)
    except (Exception, SystemExit) as error:  # whatever the module does
        hint = f"Loading it raised {type(error).__name__}: {error}"
        checks.fail(option, text, "to name a module that loads", hint)


def _file(option: str, path: str) -> ModuleType:
    with _files.explained(option, path, "read", _FORM), _files.opened(path):
        pass  # Python would wait for a pipe
    directory, file = os.path.split(os.path.abspath(path))
    # By its plain name and from its own directory, so that a process of a pool finds it, too.
    if directory not in sys.path:
        sys.path.insert(0, directory)
    name = file.removesuffix(".py")
    loaded = sys.modules.get(name)
    if loaded is not None and getattr(loaded, "__file__", None) != os.path.join(directory, file):
        hint = f"Another module is called {name}: rename the file."
        checks.fail(option, path, "to have a name of its own", hint)
    return importlib.import_module(name)
