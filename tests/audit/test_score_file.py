"""An audit that is stopped goes on where it was, and only with what it was begun with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from sordino.audit.score_file import OutputFile, OutputFileError, digest
from sordino.audit.worlds import TrainedRelease, outputs
from sordino.data.dataset import Dataset
from sordino.objectives.objective import ObjectiveSpec
from sordino.sgd import TrainSpec

ZERO, ONE = np.zeros(3), np.array([0.0, 0.0, 1.0])
X = np.random.default_rng(0).uniform(-0.5, 0.5, (20, 3))
D, D_PRIME = (Dataset(rows, np.arange(20) % 2) for rows in (X, np.vstack([-X[:1], X[1:]])))
RELEASE = TrainedRelease(TrainSpec(ObjectiveSpec("logistic"), 0.5, 5, epochs=2), scale=0.1)


def noisy(data, generator):
    return data.sum() + generator.normal(size=2)


def louder(data, generator):
    return data.sum() + 2 * generator.normal(size=2)


@pytest.mark.parametrize(
    ("mechanism", "pair"), [(noisy, (ZERO, ONE)), (RELEASE, (D, D_PRIME))], ids=["callable", "sgd"]
)
class TestResume:
    def test_a_second_time_nothing_is_run(self, tmp_path, mechanism, pair, monkeypatch):
        file = tmp_path / "runs"
        first = outputs(mechanism, *pair, 700, file=file)
        size = file.stat().st_size
        told = []
        again = outputs(mechanism, *pair, 700, file=file, progress=lambda *at: told.append(at))
        np.testing.assert_array_equal(np.stack(first), np.stack(again))
        assert file.stat().st_size == size
        assert told[-1] == (1400, 1400)

    @pytest.mark.parametrize("kept", [0.0, 0.3, 0.77, 0.999])
    def test_half_a_file_gives_the_same_runs(self, tmp_path, mechanism, pair, kept):
        file = tmp_path / "runs"
        first = outputs(mechanism, *pair, 700, file=file)
        content = file.read_bytes()
        file.write_bytes(content[: int(kept * len(content))])
        again = outputs(mechanism, *pair, 700, file=file)
        np.testing.assert_allclose(np.stack(first), np.stack(again), atol=1e-6)
        # What was whole is taken as it is, what follows is as long as it was.
        assert len(file.read_bytes()) >= len(content)

    def test_more_runs_are_added(self, tmp_path, mechanism, pair):
        file = tmp_path / "runs"
        first = outputs(mechanism, *pair, 300, file=file)
        more = outputs(mechanism, *pair, 800, file=file)
        np.testing.assert_array_equal(np.stack(first), np.stack(more)[:, :300])
        fewer = outputs(mechanism, *pair, 100, file=file)
        np.testing.assert_array_equal(np.stack(fewer), np.stack(more)[:, :100])

    def test_a_damaged_block_is_made_again(self, tmp_path, mechanism, pair):
        file = tmp_path / "runs"
        first = outputs(mechanism, *pair, 700, file=file)
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
        again = outputs(mechanism, *pair, 700, file=file)
        np.testing.assert_allclose(np.stack(first), np.stack(again), atol=1e-6)


class TestRefused:
    @pytest.mark.parametrize(
        ("change", "name"),
        [
            ({"mechanism": louder}, "mechanism"),
            ({"seed": 1}, "seed"),
            ({"D": ZERO - 1}, "D"),
            ({"D_prime": 2 * ONE}, "D_prime"),
            ({"output": np.ravel}, "output"),
        ],
    )
    def test_by_the_name_of_what_differs(self, tmp_path, change, name):
        how = {"mechanism": noisy, "D": ZERO, "D_prime": ONE, "seed": 0, "runs": 50}
        outputs(**how, file=tmp_path / "runs")
        before = (tmp_path / "runs").read_bytes()
        with pytest.raises(OutputFileError, match=f"the same {name}[.]"):
            outputs(**{**how, **change}, file=tmp_path / "runs")
        assert (tmp_path / "runs").read_bytes() == before

    def test_another_training(self, tmp_path):
        outputs(RELEASE, D, D_PRIME, 20, file=tmp_path / "runs")
        with pytest.raises(OutputFileError, match=r"the same mechanism\."):
            outputs(TrainedRelease(RELEASE.spec, 0.2), D, D_PRIME, 20, file=tmp_path / "runs")

    @pytest.mark.parametrize("content", [b"hello", b"{}\n", b"[1]\n", b"\x00" * 100])
    def test_another_kind_of_file_is_left_alone(self, tmp_path, content):
        (tmp_path / "notes").write_bytes(content)
        with pytest.raises(OutputFileError, match="outputs of an audit"):
            outputs(noisy, ZERO, ONE, 50, file=tmp_path / "notes")
        assert (tmp_path / "notes").read_bytes() == content

    def test_a_file_in_use(self, tmp_path):
        with (
            OutputFile(tmp_path / "runs", {"seed": 0}),
            pytest.raises(OutputFileError, match="another audit"),
        ):
            OutputFile(tmp_path / "runs", {"seed": 0})

    def test_a_directory(self, tmp_path):
        with pytest.raises(OutputFileError, match="Cannot open"):
            OutputFile(tmp_path, {})

    def test_what_cannot_be_told_apart(self, tmp_path):
        thing = object()
        with pytest.raises(ValueError, match="leave out file="):
            outputs(lambda data, g: g.normal() + id(thing), ZERO, ONE, 50, file=tmp_path / "runs")
        with pytest.raises(ValueError, match="leave out file="):
            outputs(noisy, thing, thing, 50, file=tmp_path / "runs")


def test_digests_tell_data_apart():
    data = [ZERO, ONE, ONE.astype(np.float32), (ZERO, ONE), {"a": ZERO}, 1, 1.0, "1", None, D]
    assert len({digest(each) for each in data}) == len(data)
    assert digest(object()) is None


KILLED = """
import sys, time
import numpy as np
from sordino.audit.worlds import outputs

def slow(data, generator):
    time.sleep(0.01)
    return data.sum() + generator.normal(size=2)

found = outputs(slow, np.zeros(3), np.array([0, 0, 1.0]), 60, file=sys.argv[1], workers=1)
np.save(sys.argv[2], np.stack(found))
"""


def test_a_kill_loses_a_block_at_most(tmp_path):
    script, file = tmp_path / "killed.py", tmp_path / "runs"
    script.write_text(KILLED)
    command = [sys.executable, str(script), str(file)]
    with subprocess.Popen([*command, str(tmp_path / "first")]) as process:
        while not file.exists() or file.stat().st_size < 1200:
            assert process.poll() is None
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    kept = file.read_bytes()
    subprocess.run([*command, str(tmp_path / "second.npy")], check=True)
    assert file.read_bytes()[:1000] == kept[:1000]
    expected = outputs(noisy, ZERO, ONE, 60)
    np.testing.assert_array_equal(np.load(tmp_path / "second.npy"), np.stack(expected))
