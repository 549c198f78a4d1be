"""No noise is drawn twice by copies of one process, however they were made."""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sordino import Ledger, PrivateLogisticRegression
from sordino.release import OsGaussian, ReleaseRefused, noise

WORKER = Path(__file__).with_name("copied_worker.py")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


OWN_IDS = ["os.fork", "os.fork,plain-memory", "fork", "fork,plain-memory", "clone", "spawn"]
OWN_IDS += ["os.fork,threaded"]
ONE_ID = ["namespaces", "os.fork,same-id", "os.fork,same-id,plain-memory"]
ONE_ID += ["fork,same-id", "clone,same-id", "os.fork,same-id,threaded"]
TWINS = ["os.fork,twin", "os.fork,same-id,twin", "namespaces,twin"]
TWINS += ["os.fork,same-id,threaded,twin"]


@pytest.fixture(scope="module")
def everything() -> list[dict[str, Any]]:
    """What each process drew, in every way: one program, since to start it takes longest."""
    quiet = "-Wignore::DeprecationWarning"  # fork beside threads
    command = [sys.executable, quiet, str(WORKER), *OWN_IDS, *ONE_ID, *TWINS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


Drawn = list[dict[str, Any]]


def _draws(everything: Drawn, asked: str) -> Drawn:
    """Those of one way; skips if this machine does not let us copy so."""
    found = [each for each in everything if each["asked"] == asked]
    for each in found:
        if "not_permitted" in each:
            pytest.skip(f"copying by {asked} is not permitted here: {each['not_permitted']}")
    return found


def _repeated(found: Drawn, kind: str) -> bool:
    numbers = [number for each in found for number in each.get(kind, ())]
    assert numbers
    return len(set(numbers)) < len(numbers)


def _copies(found: Drawn) -> Drawn:
    return [each for each in found if "copy" in each["who"]]


@pytest.mark.parametrize("asked", OWN_IDS)
def test_copies_with_ids_of_their_own_all_draw_and_repeat_nothing(
    everything: Drawn, asked: str
) -> None:
    found = _draws(everything, asked)
    assert len(found) >= 6
    assert all("refused" not in each for each in found)
    assert len({each["pid"] for each in found}) >= 2
    assert not _repeated(found, "stream")
    assert not _repeated(found, "opendp")
    for each in found:
        if each["who"] == "threads":  # all of them see one number, of this copy
            assert len(each["numbers"]) == 1
            assert len(each["opendp"]) == 32


@pytest.mark.parametrize("asked", ONE_ID)
def test_copies_with_one_id_draw_other_keystreams_and_no_opendp(
    everything: Drawn, asked: str
) -> None:
    found = _draws(everything, asked)
    assert len(_copies(found)) == 4
    assert len({each["pid"] for each in found}) == 1
    assert not _repeated(found, "stream")
    assert not _repeated(found, "opendp")
    for each in _copies(found):
        assert "opendp" not in each
        assert each["refused"].startswith("This process is a copy of another with the same id")
        assert "spawn it instead" in each["refused"]
    assert [each["who"] for each in found if "opendp" in each] == ["parent", "parent again"]


def test_a_twin_that_looks_at_process_ids_is_caught(everything: Drawn) -> None:
    assert _repeated(_draws(everything, "os.fork,same-id,twin"), "stream")
    assert _repeated(_draws(everything, "os.fork,same-id,threaded,twin"), "stream")
    assert not _repeated(_draws(everything, "os.fork,twin"), "stream")  # where ids differ


def test_opendp_itself_repeats_where_ids_are_equal(everything: Drawn) -> None:
    # Why a copy is refused: if this fails one day, OpenDP needs no such care any more.
    found = _draws(everything, "namespaces,twin")
    assert {each["pid"] for each in found} == {1}
    assert _repeated(found, "stream")
    assert _repeated(found, "opendp")


COPIED_MIDWAY = """
import json, os
import numpy as np
from sordino.models.kernels import normals
from sordino.release import ReleaseRefused, noise

noise._LEAST_A_THREAD = noise._BLOCK = 1024
noise._ZEROS = noise._ZEROS[: 32 * 1024]

class Copied(noise._Keystream):
    parts = 0

    def _draw(self, words):
        super()._draw(words)
        self.parts += 1
        if self.parts == 3 and (child := os.fork()):
            os.waitpid(child, 0)

def drawn(draw):
    stream, values = Copied(), np.zeros(8 * 1024)
    if draw == "add_to":
        stream.add_to(values, 1.0)
        return np.count_nonzero(values)
    return np.count_nonzero(getattr(stream, draw)({"words": 32 * 1024}.get(draw, (8 * 1024,))))

parent = os.getpid()
for normals.THREADS in (1, 2):
    for draw in ("words", "standard_normal", "add_to"):
        try:
            found = int(drawn(draw))
        except ReleaseRefused as refused:
            found = str(refused)
        os.write(1, (json.dumps([normals.THREADS, draw, found]) + "\\n").encode())
        if os.getpid() != parent:
            os._exit(0)
"""


def test_a_copy_made_while_noise_is_drawn_does_not_give_its_first_part() -> None:
    quiet = "-Wignore::DeprecationWarning"  # fork beside threads
    command = [sys.executable, quiet, "-c", COPIED_MIDWAY]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr == ""
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == 12
    for copy, parent in zip(found[::2], found[1::2], strict=True):
        assert copy[:2] == parent[:2]
        assert copy[2].startswith("This process was copied while it drew noise")
        assert parent[2] == (32 * 1024 if parent[1] == "words" else 8 * 1024)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux clears memory in a copy")
def test_this_machine_clears_memory_and_others_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(noise._page(), mmap.mmap)
    monkeypatch.setattr(noise, "_WIPE_ON_FORK", 9999)  # as an old kernel answers
    assert isinstance(noise._page(), bytearray)

    class Emulated(mmap.mmap):
        def madvise(self, *advice: int) -> None:
            """Takes any advice, follows none."""

    monkeypatch.setattr(mmap, "mmap", Emulated)
    assert isinstance(noise._page(), bytearray)


def test_a_copy_is_refused_before_its_ledger_is_charged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    X, y = np.random.default_rng(0).standard_normal((200, 3)), np.arange(200) % 2
    source = OsGaussian()
    monkeypatch.setattr(noise, "_COPY_OF_PROCESS", {os.getpid(): noise._COPIES.here() - 1})
    ledger = Ledger(tmp_path / "ledger.db", dataset="d", epsilon=2.0, delta=1e-4)
    for method in ("objective", "noisy-gd", "output-gd"):
        model = PrivateLogisticRegression(1.0, 1e-5, classes=[0, 1], method=method)
        with ledger, pytest.raises(ReleaseRefused, match="copy of another"):
            model.fit(X, y)
        assert not hasattr(model, "coef_")
    with ledger:
        assert ledger.status().entries == ()
    with pytest.raises(ReleaseRefused):
        source.perturb([0.0], 1.0)
    with pytest.raises(ReleaseRefused):
        source.stream("x").standard_normal((2,))
