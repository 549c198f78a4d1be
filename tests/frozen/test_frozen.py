"""What the code answered before it was rebuilt, it still answers: to the bit (see README.md)."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from frozen import compare

import sordino

HERE = Path(__file__).parent
DATA = HERE / "data"
FAST = ("quick", "accounts", "trainings", "releases")
SLOW = (
    ("accounts-more", "trainings-more", "releases-more", "calibrations", "corpus", "golden"),
    ("released",),
    ("assessed",),
    ("attacked", "gallery", "measured", "reproduced"),
    ("study", "assessment", "half_study", "half_assessment"),
)
LIBRARIES = ("numpy", "scipy", "numba", "torch", "scikit-learn", "pandas", "opendp", "zarr")


def _versions() -> dict[str, str]:
    found = {name: metadata.version(name) for name in LIBRARIES}
    return {**found, "python": platform.python_version(), "machine": platform.machine()}


def _skip_elsewhere() -> None:
    """Other libraries may round otherwise, and nothing is then said about sordino."""
    then, now = json.loads((HERE / "versions.json").read_text()), _versions()
    other = {name: (was, now.get(name)) for name, was in then.items() if was != now.get(name)}
    if other:
        pytest.skip(f"the answers were frozen with other versions (then, now): {other}")


def _made(out: Path, *parts: str) -> None:
    """Freeze anew, with the code under test, in a process of its own."""
    source = Path(sordino.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, HERE / "make.py", out, *parts],
        env={**os.environ, "PYTHONPATH": str(source), "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize(
    "parts",
    [FAST, *(pytest.param(parts, marks=pytest.mark.slow) for parts in SLOW)],
    ids=lambda parts: "+".join(parts),
)
def test_answers_are_what_they_were(parts: tuple[str, ...], tmp_path: Path) -> None:
    _skip_elsewhere()
    _made(tmp_path, *parts)
    differ: list[str] = []
    for part in parts:
        frozen, found = (compare.read(where / f"{part}.json") for where in (DATA, tmp_path))
        differ += (f"{part}{line}" for line in compare.differences(frozen, found))
    assert not differ, f"{len(differ)} differences:\n" + "\n".join(differ[:60])


def test_every_part_is_compared() -> None:
    assert sorted(path.stem for path in DATA.glob("*.json")) == sorted({*FAST, *sum(SLOW, ())})


@pytest.mark.parametrize("name", ["study", "assessment"])
def test_what_was_half_done_ends_as_a_whole_one_does(name: str) -> None:
    half, whole = (compare.read(DATA / f"{before}{name}.json") for before in ("half_", ""))
    assert not list(compare.differences(whole, half))


# The harness itself: its broken twins -------------------------------------------------------------

SAID = {
    "exit": 0,
    "json": {
        "rows": [
            {"method": "pld", "epsilon": 0.5497760975481156, "reason": None, "notes": ["a note"]},
            {"method": "rdp", "epsilon": None, "reason": "not convex", "notes": []},
        ],
        "milliseconds": 3.1,
    },
}


def _twin(change: str, value: object) -> dict[str, object]:
    """What was said, one thing of it changed ("gone": taken away)."""
    twin = json.loads(json.dumps(SAID))
    *parents, last = change.split("/")
    place = twin
    for name in parents:
        place = place[int(name)] if name.isdigit() else place[name]
    if value == "gone":
        del place[last]
    else:
        place[last] = value
    return twin


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ("json/rows/0/epsilon", 0.5497760975481157),  # the last bit
        ("json/rows/0/epsilon", "gone"),
        ("json/rows/1/epsilon", 0.7),  # a refusal that was lost ...
        ("json/rows/1/reason", None),  # ... and its reason
        ("json/rows/0/reason", "it refuses now"),
        ("json/rows/0/notes", []),
        ("json/rows/0/method", "PLD"),
        ("json/rows", []),
        ("json/new", 1),
        ("exit", 1),
        ("exit", False),
    ],
)
def test_a_change_is_found(change: str, value: object) -> None:
    assert len(list(compare.differences(SAID, _twin(change, value)))) >= 1


@pytest.mark.parametrize(
    ("change", "value"),
    [("json/rows/1/reason", "other words"), ("json/milliseconds", 9.0), ("exit", 0)],
)
def test_words_and_times_may_change(change: str, value: object) -> None:
    assert not list(compare.differences(SAID, _twin(change, value)))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    said = {"case": SAID, "bits": {"low": 5e-324, "zero": -0.0, "many": 0.1 + 0.2}}
    compare.write(said, tmp_path / "part.json")
    again = compare.read(tmp_path / "part.json")
    assert not list(compare.differences(said, again))
    assert len((tmp_path / "part.json").read_text().splitlines()) == 4  # one line an entry
