"""Run `sordino ...` in this process, and keep what it printed, wrote and exited with."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import runpy
import sqlite3
import sys
import warnings
from pathlib import Path
from typing import Any

from frozen import steady


def run(*arguments: object) -> tuple[int, str, str]:
    """Exit code, standard output, standard error; a fault of the program has code 70."""
    printed, told = io.StringIO(), io.StringIO()
    kept = sys.argv
    sys.argv = ["sordino", *map(str, arguments)]
    steady.again(" ".join(sys.argv))
    code = 0
    try:
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(told),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            runpy.run_module("sordino", run_name="__main__", alter_sys=False)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except Exception as fault:
        code = 70
        told.write(f"{type(fault).__name__}: {fault}")
    finally:
        sys.argv = kept
    return code, _elsewhere(printed.getvalue()), _elsewhere(told.getvalue())


def _elsewhere(text: str) -> str:
    """Without the name of the temporary directory in which it happened."""
    return text.replace(str(Path.cwd()), "<here>")


def answer(*arguments: object) -> dict[str, Any]:
    """What a command says: its JSON if it printed some, else whether it said anything at all."""
    code, printed, told = run(*arguments)
    found: dict[str, Any] = {"exit": code, "told": bool(told.strip())}
    if code == 70:
        found["fault"] = told
    try:
        found["json"] = json.loads(printed)
    except ValueError:
        found["printed"] = bool(printed.strip())
    return found


def text_file(path: Path) -> dict[str, Any]:
    """A file of JSON: its values, and its bytes (which a signature or a chain may be over)."""
    if not path.is_file():
        return {"missing": path.name}
    content = _elsewhere(path.read_text())
    return {"sha256": hashlib.sha256(content.encode()).hexdigest(), "json": json.loads(content)}


def key_pair(private: Path, public: Path) -> None:
    """A key that is always the same: its signatures are too."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"frozen").digest())
    pem = form.Encoding.PEM
    hidden = key.private_bytes(pem, form.PrivateFormat.PKCS8, form.NoEncryption())
    private.write_bytes(hidden)
    private.chmod(0o600)
    shown = key.public_key().public_bytes(pem, form.PublicFormat.SubjectPublicKeyInfo)
    public.write_bytes(shown)


def bytes_of(path: Path) -> str:
    """A small binary file, whole."""
    if not path.is_file():
        return f"{path.name} is missing"
    return base64.b64encode(path.read_bytes()).decode()


def tree(root: Path) -> list[str]:
    """Names of all files below."""
    return sorted(each.relative_to(root).as_posix() for each in root.rglob("*") if each.is_file())


def rows(path: Path) -> dict[str, list[Any]]:
    """Every table of a database, row by row."""
    found: dict[str, list[Any]] = {}
    with contextlib.closing(sqlite3.connect(path)) as book:
        names = book.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        for (name,) in names.fetchall():
            found[name] = [
                [_plain(cell) for cell in row]
                for row in book.execute(f'SELECT * FROM "{name}" ORDER BY 1')
            ]
    return found


def _plain(cell: object) -> object:
    if isinstance(cell, bytes):
        return cell.hex()
    return _elsewhere(cell) if isinstance(cell, str) else cell
