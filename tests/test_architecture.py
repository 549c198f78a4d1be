"""The house of docs/design.md as code: who may import whom, and what no file may do.

`violations` reads source text only, so it works on any tree: on `src/sordino`, which must be
clean, and on small planted trees, which prove that every rule catches what it forbids.
An import counts wherever it stands: in a function, under TYPE_CHECKING, relative, by attribute
(`import sordino` and then `sordino.sgd.engine`) or by name (`import_module("sordino.sgd")`).
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import sordino

PACKAGE = "sordino"
SOURCE = Path(sordino.__file__).parent
REPOSITORY = Path(__file__).parents[1]

# In reading order. "models.constants" opens that one module, not its room.
OPEN_TO_ALL = (
    *("checks", "_cost", "_files", "_lazy", "errors"),
    *("privacy", "serialize", "tasks", "types"),
)
TABLE: dict[str, tuple[str, ...]] = {
    "randomness": (),
    "data": ("randomness",),
    "models": ("randomness",),
    "sgd": ("randomness", "data", "models"),
    "accounting": (),
    "sensitivity": ("accounting", "models.constants"),
    "proofs": ("accounting", "sensitivity", "models.constants", "sgd.spec"),
    "release": (
        *("data.cells", "data.columns"),
        *("models.kernels.normals", "accounting", "proofs"),
    ),
    "estimators": (
        *("randomness", "data", "models", "sgd"),
        *("accounting", "sensitivity", "proofs", "release"),
    ),
    "networks": ("models", "sgd", "accounting", "proofs", "release"),
    "study": (),
    "intrinsic": (
        *("randomness", "data", "models", "sgd"),
        *("accounting", "sensitivity", "proofs", "study"),
    ),
    "audit": (
        *("randomness", "data", "models", "sgd", "accounting", "proofs"),
        *("release", "estimators", "study", "intrinsic"),
    ),
    "report": (),
}
for _last in ("assessment", "cli"):
    TABLE[_last] = tuple(TABLE)
ALLOWED = {
    "checks": ("errors",),
    "_cost": ("checks",),
    "_files": ("checks",),
    "_lazy": (),
    "errors": (),
    "types": (),
    "privacy": ("checks", "errors"),
    "serialize": ("checks", "errors"),
    "tasks": ("checks", "errors", "randomness", "types"),
    **{room: (*OPEN_TO_ALL, *rooms) for room, rooms in TABLE.items()},
    "__init__": (*OPEN_TO_ALL, *(room for room in TABLE if room != "cli")),
    "__main__": ("cli.main",),
}
PAPERS = "sordino_papers"
PAPERS_SOURCE = SOURCE.parent / PAPERS
PAPERS_MAY_USE = (*OPEN_TO_ALL, *(room for room in TABLE if room != "cli"))
PAPERS_COMMAND = ("cli.options", "cli.terminal")
"""What `sordino reproduce` shares with the other commands: one option, bars and the terminal."""

HEAVY = ("torch", "numba")
HEAVY_ROOMS = ("models", "sgd", "networks")
LIGHT_FILES = (
    "models/__init__.py",
    "models/constants.py",
    "sgd/__init__.py",
    "sgd/spec.py",
)
PLAIN = ("accounting/", "audit/bounds.py", "privacy.py")
PLAIN_MAY_USE = ("numpy", "scipy", "dp_accounting")
UNPICKLERS = (
    *("pickle", "_pickle", "cPickle", "cloudpickle", "dill", "marshal", "shelve"),
    *("joblib.load", "pandas.read_pickle", "torch.load", "torch.serialization.load"),
)
IMPORTERS = ("importlib.import_module", "__import__")
PRINTERS = {
    **dict.fromkeys(("print", "typer.echo", "typer.secho", "typer.prompt"), "cli/terminal.py"),
    **dict.fromkeys(("click.echo", "click.secho", "rich.print", "rich.print_json"), ""),
    **dict.fromkeys(("sys.stdout.write", "sys.stderr.write"), ""),
    **dict.fromkeys(("rich.text.Text", "rich.text.Text.from_markup"), ""),
    "rich.progress.TextColumn": "cli/terminal.py data/sources.py",
    "rich.console.Console": "data/sources.py",
}
"""Ways to a terminal, and the file that may use each: others would not be cleaned."""


def violations(root: Path) -> list[str]:
    """Return one sentence for everything under `root` that breaks the house's rules.

    A `root` called sordino_papers is the package beside the house, and stands under its own.
    """
    found = []
    papers = root.name == PAPERS
    for path in sorted(root.rglob("*.py")):
        where = path.relative_to(root)
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text, filename=str(path))
        if not papers and _room(where) not in ALLOWED:
            found.append(f"{where}: no room {_room(where)} in the table")
        found += [f"{where}: {message}" for message in _file_violations(where)]
        for line, name in _references(tree, where):
            house = _of_papers(where, name) if papers else _of_the_house(where, name)
            for message in (*house, *_name_violations(where, name)):
                found.append(f"{where}:{line}: {message}")
        for line, message in _call_violations(tree, where):
            found.append(f"{where}:{line}: {message}")
    return list(dict.fromkeys(found))


def _file_violations(where: Path) -> Iterator[str]:
    if any(re.fullmatch(r"(.*_)?utils?", part) for part in (*where.parent.parts, where.stem)):
        yield "a drawer for anything: name the module after what it does"


def _name_violations(where: Path, name: str) -> Iterator[str]:
    room, file = _room(where), where.as_posix()
    top = name.partition(".")[0]
    if top == PACKAGE:
        return
    if top in HEAVY and (room not in HEAVY_ROOMS or file in LIGHT_FILES):
        yield f"{top} may not be imported here"
    plain = any(file == place or (place[-1] == "/" and file.startswith(place)) for place in PLAIN)
    if plain and top not in sys.stdlib_module_names and top not in PLAIN_MAY_USE:
        yield f"{top} is not among {', '.join(PLAIN_MAY_USE)}"
    if any(_within(name, unpickler) for unpickler in UNPICKLERS):
        yield f"{name} reads pickles, which can run code"


def _of_the_house(where: Path, name: str) -> Iterator[str]:
    room, target = _room(where), name.removeprefix(PACKAGE).removeprefix(".")
    if _within(name, PAPERS):
        yield f"{name} is built on the house, not the house on it"
    if not _within(name, PACKAGE) or target in ("", "__version__"):
        return
    other = target.partition(".")[0]
    if other not in ALLOWED:
        yield f"{name} is not in a room: import a name from where it is defined"
    elif other != room and not any(_within(target, open_) for open_ in ALLOWED.get(room, ())):
        yield f"{room} may not import {name}"


def _of_papers(where: Path, name: str) -> Iterator[str]:
    target = name.removeprefix(PACKAGE).removeprefix(".")
    if not _within(name, PACKAGE) or target in ("", "__version__"):
        return
    opened = PAPERS_MAY_USE + (PAPERS_COMMAND if where.name == "command.py" else ())
    if not any(_within(target, open_) for open_ in opened):
        yield f"{PAPERS} may not import {name}"


def _may_name_modules(where: Path) -> bool:
    """Public names are loaded when first used; and the command line loads a user's own module."""
    return where.as_posix() == "_lazy.py" or where.parts[-2:] == ("cli", "audit.py")


def _call_violations(tree: ast.AST, where: Path) -> Iterator[tuple[int, str]]:
    bound = _bound_names(tree, where)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        for keyword in node.keywords:
            safe = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
            if keyword.arg == "allow_pickle" and not safe:
                yield node.lineno, "allow_pickle reads pickles, which can run code"
        called = _resolved(node.func, bound)
        if called in PRINTERS and where.as_posix() not in PRINTERS[called].split():
            yield node.lineno, f"{called} prints what nobody cleaned: use cli/terminal.py"
        if called == "numpy.load" and len(node.args) > 2:
            yield node.lineno, "the third argument of numpy.load (allow_pickle) reads pickles"
        hidden = node.args and not isinstance(node.args[0], ast.Constant)
        if called in IMPORTERS and hidden and not _may_name_modules(where):
            yield node.lineno, "imports a module whose name cannot be read here"


def _references(tree: ast.AST, where: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, dotted name) of every import and of every attribute of an imported name."""
    bound = _bound_names(tree, where)
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(node.module or "", node.level, where)
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Attribute) and id(node) not in inner:
            if _dotted(node).partition(".")[0] in bound:
                yield node.lineno, _resolved(node, bound)
        elif isinstance(node, ast.Call) and _resolved(node.func, bound) in IMPORTERS:
            for name in (str(a.value) for a in node.args[:1] if isinstance(a, ast.Constant)):
                level = len(name) - len(name.lstrip("."))
                yield node.lineno, _absolute(name.lstrip("."), level, where)


def _bound_names(tree: ast.AST, where: Path) -> dict[str, str]:
    """Return what each name bound by an import stands for: {"np": "numpy", ...}."""
    bound = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                bound[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(node.module or "", node.level, where)
            for alias in node.names:
                bound[alias.asname or alias.name] = f"{module}.{alias.name}"
    return bound


def _absolute(module: str, level: int, where: Path) -> str:
    package = (PACKAGE, *where.parent.parts)
    above = package[: len(package) - level + 1] if level else ()
    return ".".join((*above, *([module] if module else [])))


def _resolved(node: ast.AST, bound: dict[str, str]) -> str:
    head, dot, rest = _dotted(node).partition(".")
    return f"{bound.get(head, head)}{dot}{rest}"


def _dotted(node: ast.AST) -> str:
    """Return "a.b.c" for that expression, and "" for one that is not names and dots alone."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (head := _dotted(node.value)):
        return f"{head}.{node.attr}"
    return ""


def _room(where: Path) -> str:
    return where.parts[0].removesuffix(".py")


def _within(name: str, place: str) -> bool:
    return name == place or name.startswith(place + ".")


def _plant(root: Path, file: str, text: str) -> list[str]:
    path = root / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return violations(root)


@pytest.mark.parametrize("source", [SOURCE, PAPERS_SOURCE], ids=lambda path: path.name)
def test_the_house_is_clean(source: Path) -> None:
    assert violations(source) == []


def test_the_package_of_the_papers_stands_on_the_house(tmp_path: Path) -> None:
    papers = tmp_path / PAPERS
    lawful = "from sordino import __version__, audit\nfrom sordino.cli.terminal import say\n"
    assert _plant(papers, "command.py", lawful) == []
    assert _plant(papers, "a/b.py", f"import torch\n{lawful}from sordino import fit\n") == [
        "a/b.py:1: torch may not be imported here",
        "a/b.py:3: sordino_papers may not import sordino.cli.terminal.say",
        "a/b.py:4: sordino_papers may not import sordino.fit",
    ]


def test_the_checker_sees_the_source() -> None:
    seen = {
        name
        for path in SOURCE.rglob("*.py")
        for _, name in _references(ast.parse(path.read_text()), path.relative_to(SOURCE))
    }
    assert {"sordino.checks.fail", "numpy.random.PCG64", "typer.Typer"} <= seen


def test_rooms_import_upwards_only() -> None:
    above: list[str] = []
    for room, opened in TABLE.items():
        assert {place.partition(".")[0] for place in opened} <= set(above), room
        above.append(room)


def test_the_design_document_holds_the_same_table() -> None:
    text = (REPOSITORY / "docs" / "design.md").read_text(encoding="utf-8")
    block = text.split("<!-- import table -->")[1].split("```")[1].removeprefix("text")
    rows = [line.split() for line in block.strip().splitlines()]
    written = {room: opened for room, *opened in rows}
    expected: dict[str, list[str]] = {}
    for room, opened in TABLE.items():
        everything = opened == tuple(expected) and room in ("assessment", "cli")
        expected[room] = ["everything", "above"] if everything else list(opened) or ["-"]
    assert written == expected
    assert list(written) == list(expected)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("data/a.py", "from sordino import checks, privacy, randomness\n"),
        ("data/a.py", "import sordino\nVERSION = sordino.__version__\n"),
        (
            "data/a.py",
            "from .b import c\nfrom ..randomness import stream\nfrom sordino.data import b\n",
        ),
        ("sensitivity.py", "from sordino.models.constants import Constants\n"),
        ("sensitivity.py", "from .models import constants\n"),
        ("sensitivity.py", "import sordino.models.constants\nsordino.models.constants.C\n"),
        ("proofs.py", "from sordino.sgd.spec import TrainSpec\n"),
        ("report/a.py", "from sordino.privacy import Guarantee\n"),
        ("sgd/engine.py", "import numba\nimport torch\n"),
        ("models/linear.py", "def f():\n    import torch\n"),
        ("accounting/a.py", "import math\nimport numpy as np\nimport scipy.stats, dp_accounting\n"),
        ("study/a.py", "import json\nimport numpy as np\nnp.load('x', allow_pickle=False)\n"),
        ("study/a.py", "import json, joblib\njson.load(open('x'))\njoblib.Parallel(2)\n"),
        ("study/a.py", "from sordino.study.b import load\nload('x', 'y', 3)\n"),
        ("_lazy.py", "import importlib\nimportlib.import_module(NAMES['train'])\n"),
        ("cli/a.py", "from sordino import assessment\nfrom sordino.audit import game\n"),
        ("cli/terminal.py", "import typer\ntyper.echo('x')\n"),
        ("data/utilities.py", ""),
    ],
)
def test_a_lawful_file_passes(tmp_path: Path, file: str, text: str) -> None:
    assert _plant(tmp_path, file, text) == []


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("cli/a.py", "import typer\ntyper.echo('x')\n", "a.py:2: typer.echo prints what nobody"),
        ("cli/a.py", "from typer import echo\necho('x')\n", "a.py:2: typer.echo prints"),
        ("data/a.py", "print('x')\n", "a.py:1: print prints what nobody cleaned"),
        ("cli/a.py", "import sys\nsys.stderr.write('x')\n", "a.py:2: sys.stderr.write prints"),
        (
            "cli/a.py",
            "def f():\n    from rich.console import Console\n    Console()\n",
            "a.py:3: rich.console.Console prints",
        ),
        # every way to write an import
        ("data/a.py", "from sordino.sgd.engine import train\n", "data may not import sordino.sgd"),
        ("data/a.py", "import sordino.sgd.engine\n", "data may not import sordino.sgd.engine"),
        ("data/a.py", "import sordino.sgd.engine as e\n", "data may not import sordino.sgd.engine"),
        ("data/a.py", "from sordino import sgd\n", "data may not import sordino.sgd"),
        ("data/a.py", "from sordino import sgd as _check\n", "data may not import sordino.sgd"),
        ("data/a.py", "from ..sgd import engine\n", "data may not import sordino.sgd.engine"),
        ("data/a.py", "from .. import sgd\n", "data may not import sordino.sgd"),
        ("data/b/a.py", "from ...sgd.engine import f\n", "data may not import sordino.sgd.engine"),
        ("data/__init__.py", "from ..sgd import f\n", "data may not import sordino.sgd.f"),
        ("randomness.py", "from .data import dataset\n", "randomness may not import sordino.data"),
        ("data/a.py", "def f():\n    from sordino.sgd import engine\n", "a.py:2: data may not"),
        (
            "data/a.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import sordino.sgd.engine\n",
            "a.py:3: data may not import sordino.sgd.engine",
        ),
        ("data/a.py", "import sordino\nsordino.sgd.engine.train()\n", "a.py:2: data may not"),
        ("data/a.py", "import sordino as s\ns.sgd.engine.train()\n", "a.py:2: data may not"),
        (
            "data/a.py",
            "import importlib\nimportlib.import_module('sordino.sgd')\n",
            "a.py:2: data may not import sordino.sgd",
        ),
        (
            "data/a.py",
            "from importlib import import_module\nimport_module('..sgd', __package__)\n",
            "a.py:2: data may not import sordino.sgd",
        ),
        ("data/a.py", "__import__('sordino.sgd')\n", "data may not import sordino.sgd"),
        ("data/a.py", "__import__(name)\n", "cannot be read"),
        ("data/a.py", "from sordino.sgd import *\n", "data may not import sordino.sgd"),
        # one room's bounds
        ("checks.py", "from sordino import privacy\n", "checks may not import sordino.privacy"),
        (
            "privacy.py",
            "from sordino import randomness\n",
            "privacy may not import sordino.randomness",
        ),
        ("__init__.py", "from sordino.cli import main\n", "__init__ may not import sordino.cli"),
        (
            "assessment/a.py",
            "from sordino.cli import main\n",
            "assessment may not import sordino.cli",
        ),
        ("cli/a.py", "import sordino_papers\n", "cli/a.py:1: sordino_papers is built on the house"),
        ("cli/a.py", "from sordino_papers.claims import PaperRun\n", "is built on the house"),
        ("accounting/a.py", "from sordino.sgd.spec import TrainSpec\n", "accounting may not"),
        ("release/a.py", "from sordino.sgd.spec import TrainSpec\n", "release may not"),
        (
            "study/a.py",
            "from sordino import randomness\n",
            "study may not import sordino.randomness",
        ),
        ("audit/a.py", "from sordino import sensitivity\n", "audit may not"),
        ("data/a.py", "from sordino import Relation\n", "is not in a room"),
        ("data/a.py", "from sordino.attic import f\n", "is not in a room"),
        ("attic/a.py", "", "no room attic"),
        # one module of a room
        ("sensitivity.py", "from sordino.models import Constants\n", "sensitivity may not"),
        ("sensitivity.py", "from sordino import models\n", "sensitivity may not"),
        ("sensitivity.py", "from sordino.models.linear import f\n", "sensitivity may not"),
        ("sensitivity.py", "from sordino.models.constants_b import f\n", "sensitivity may not"),
        ("proofs.py", "from sordino.sgd.engine import train\n", "proofs may not"),
        ("proofs.py", "from sordino.sgd import TrainSpec\n", "proofs may not"),
        ("report/a.py", "from sordino.accounting import gaussian\n", "report may not"),
        # heavy packages
        ("data/a.py", "import torch\n", "torch may not be imported here"),
        ("data/a.py", "def f():\n    from torch.nn import functional\n", "torch may not"),
        ("audit/a.py", "import numba as nb\n", "numba may not be imported here"),
        ("models/constants.py", "import torch\n", "torch may not be imported here"),
        (
            "models/constants.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from torch import Tensor\n",
            "constants.py:3: torch may not be imported here",
        ),
        ("sgd/spec.py", "def f():\n    import numba\n", "numba may not be imported here"),
        ("sgd/__init__.py", "import torch\n", "torch may not be imported here"),
        # plain rooms
        ("accounting/a.py", "import pandas as pd\n", "pandas is not among"),
        ("accounting/b/a.py", "from sklearn import svm\n", "sklearn is not among"),
        ("audit/bounds.py", "def f():\n    import sklearn\n", "sklearn is not among"),
        ("privacy.py", "import rich\n", "rich is not among"),
        # pickles
        ("study/a.py", "import pickle\n", "pickle reads pickles"),
        ("study/a.py", "from pickle import loads\n", "pickle.loads reads pickles"),
        ("study/a.py", "import cPickle\n", "cPickle reads pickles"),
        ("study/a.py", "import joblib as j\nj.load('x')\n", "a.py:2: joblib.load reads pickles"),
        ("study/a.py", "from joblib import load\n", "joblib.load reads pickles"),
        ("sgd/a.py", "import torch\ntorch.load('x')\n", "a.py:2: torch.load reads pickles"),
        ("study/a.py", "import pandas as pd\npd.read_pickle('x')\n", "pandas.read_pickle reads"),
        (
            "study/a.py",
            "import numpy as np\nnp.load('x', allow_pickle=True)\n",
            "a.py:2: allow_pickle",
        ),
        ("study/a.py", "import numpy as np\nnp.load('x', allow_pickle=yes)\n", "allow_pickle"),
        ("study/a.py", "import numpy as np\nnp.load('x', None, True)\n", "third argument"),
        ("study/a.py", "from numpy import load\nload('x', None, True)\n", "third argument"),
        # files
        ("data/utils.py", "", "drawer for anything"),
        ("data/text_utils.py", "", "drawer for anything"),
        ("data/utils/a.py", "", "drawer for anything"),
    ],
)
def test_a_planted_violation_is_caught(tmp_path: Path, file: str, text: str, message: str) -> None:
    found = _plant(tmp_path, file, text)
    assert len(found) >= 1
    assert all(message in sentence for sentence in found), found
    assert all(sentence.startswith(file) for sentence in found), found


def test_every_violation_of_a_tree_is_listed(tmp_path: Path) -> None:
    _plant(tmp_path, "data/a.py", "import torch\nimport pickle\n")
    assert _plant(tmp_path, "sgd/b.py", "from sordino import audit\n") == [
        "data/a.py:1: torch may not be imported here",
        "data/a.py:2: pickle reads pickles, which can run code",
        "sgd/b.py:1: sgd may not import sordino.audit",
    ]


def _loads(statements: str, *packages: str, first: Path | None = None) -> list[str]:
    """Run `statements` in a fresh interpreter; return which of `packages` it had to load."""
    report = f"import sys; print('LOADED', *[p for p in {packages!r} if p in sys.modules])"
    paths = [str(first)] if first else []
    paths += [os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    done = subprocess.run(
        [sys.executable, "-c", f"{statements}\n{report}"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].split()[1:]


def test_specification_modules_load_without_torch() -> None:
    modules = ("models.constants", "sgd.spec", "models", "sgd")
    assert _loads("\n".join(f"import sordino.{each}" for each in modules), *HEAVY) == []


def test_every_public_name_is_there() -> None:
    for file in SOURCE.rglob("__init__.py"):
        room = import_module(".".join((PACKAGE, *file.parent.relative_to(SOURCE).parts)))
        for name in getattr(room, "__all__", ()):
            assert hasattr(room, name), f"{room.__name__}.{name}"


def test_a_heavy_package_loaded_on_the_way_is_seen(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("")
    _plant(tmp_path / PACKAGE, "__init__.py", "")
    _plant(tmp_path / PACKAGE, "sgd/spec.py", "")
    _plant(tmp_path / PACKAGE, "sgd/engine.py", "import torch\n")
    assert _plant(tmp_path / PACKAGE, "sgd/__init__.py", "from . import engine\n") == []
    assert _loads("import sordino.sgd.spec", *HEAVY, first=tmp_path) == ["torch"]


def test_help_loads_no_heavy_package() -> None:
    run = (
        "import sys\nsys.argv = ['sordino', '--help']\n"
        "from sordino.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert stop.code == 0, stop.code\n"
        "else:\n    raise AssertionError('--help did not stop')"
    )
    assert _loads(run, *HEAVY, "pandas", "sklearn", "sordino.cli.main") == ["sordino.cli.main"]
