"""An audit that is stopped goes on where it was, and only with what it was begun with."""

from __future__ import annotations

import functools
import importlib
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sordino.audit.runners.outputs import OutputFile, OutputFileError, digest, outputs
from sordino.audit.runners.trained import TrainedRelease
from sordino.data.dataset import Dataset
from sordino.errors import InvalidArgument
from sordino.models.constants import ObjectiveSpec
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
        size = file.stat().st_size  # everything is in it now
        outputs(mechanism, *pair, 700, file=file)
        assert file.stat().st_size == size

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
            outputs(noisy, thing, thing, 50, file=tmp_path / "runs")


MINE = """
import numpy as np
from sklearn.base import BaseEstimator

SHIFT = 0.0
SHIFTS = np.zeros(5000)
TABLE = {"shift": [0.0]}
OTHER = 1


def helper():
    return 0.0


class Base(BaseEstimator):
    def drawn(self):
        return np.random.normal(SHIFT, 1, 2)


class Mine(Base):
    def __init__(self, shifts=None):
        self.shifts = shifts

    def fit(self, X, y):
        self.coef_ = self.drawn() + helper()
        return self


def mine(data, generator):
    def inner():
        return SHIFTS.sum() + TABLE["shift"][0] + helper()

    return generator.normal(SHIFT + inner())


RNG = np.random.default_rng(0)


def hidden(data, generator):
    return RNG.normal()
"""


@pytest.fixture
def loaded(tmp_path, monkeypatch):
    """A module of the user's, whose text can be edited."""
    monkeypatch.syspath_prepend(tmp_path)

    def load(old="", new=""):
        (tmp_path / "edited.py").write_text(MINE.replace(old, new))
        importlib.invalidate_caches()
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        sys.modules.pop("edited", None)
        return importlib.import_module("edited")

    yield load
    sys.modules.pop("edited", None)


class TestChangedCode:
    """A killed audit that goes on with other code would be an audit of neither."""

    PAIR = ((X, np.arange(20) % 2), (X, np.arange(20) % 2))

    def begin(self, mechanism, file):
        outputs(mechanism, *self.PAIR, 20, file=file, workers=1)

    def refused(self, mechanism, file):
        with pytest.raises(OutputFileError, match=r"the same mechanism\."):
            self.begin(mechanism, file)

    @pytest.mark.parametrize("make", [lambda m: m.Mine(), lambda m: m.mine], ids=["class", "def"])
    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("SHIFT = 0.0", "SHIFT = 3.0"),
            ("return 0.0", "return 3.0"),
        ],
    )
    def test_what_it_names_in_its_module(self, loaded, tmp_path, make, old, new):
        self.begin(make(loaded()), tmp_path / "runs")
        self.refused(make(loaded(old, new)), tmp_path / "runs")

    @pytest.mark.parametrize(
        ("old", "new"),
        [("SHIFT, 1, 2)", "SHIFT, 2, 2)"), ("self.drawn() +", "self.drawn() -")],
    )
    def test_the_text_of_a_class_and_its_bases(self, loaded, tmp_path, old, new):
        self.begin(loaded().Mine(), tmp_path / "runs")
        self.refused(loaded(old, new).Mine(), tmp_path / "runs")

    def test_parameters_by_their_content(self, loaded, tmp_path):
        module, other = loaded(), np.zeros(5000)
        self.begin(module.Mine(np.zeros(5000)), tmp_path / "runs")
        self.begin(module.Mine(np.zeros(5000)), tmp_path / "runs")
        other[2500] = 1
        self.refused(module.Mine(other), tmp_path / "runs")

    def test_parameters_of_a_part(self, tmp_path):
        def pipeline(alpha):
            return make_pipeline(StandardScaler(), SGDClassifier(alpha=alpha, max_iter=5, tol=None))

        how = {"output": lambda fitted: fitted[-1].coef_, "file": tmp_path / "runs", "workers": 1}
        outputs(pipeline(0.1), *self.PAIR, 20, **how)
        with pytest.raises(OutputFileError, match=r"the same mechanism\."):
            outputs(pipeline(0.2), *self.PAIR, 20, **how)

    def test_the_version_of_a_package(self, tmp_path, monkeypatch):
        self.begin(SGDClassifier(max_iter=5, tol=None), tmp_path / "runs")
        self.begin(SGDClassifier(max_iter=5, tol=None), tmp_path / "runs")
        monkeypatch.setattr("sklearn.__version__", "0.1")
        self.refused(SGDClassifier(max_iter=5, tol=None), tmp_path / "runs")

    def test_a_generator_of_its_own_begins_again_in_another_process(self, loaded, tmp_path):
        self.begin(loaded().hidden, tmp_path / "runs")
        with pytest.raises(InvalidArgument, match="runs repeat others") as caught:
            outputs(loaded().hidden, *self.PAIR, 40, file=tmp_path / "runs", workers=1)
        assert caught.value.argument == "mechanism"

    @pytest.mark.parametrize("shifts", [object(), np.random.default_rng(0)])
    def test_what_cannot_be_written_down_keeps_no_file(self, loaded, tmp_path, shifts):
        with pytest.raises(InvalidArgument, match="leave out file="):
            self.begin(functools.partial(loaded().mine, shifts), tmp_path / "runs")


def test_digests_tell_data_apart():
    data = [ZERO, ONE, ONE.astype(np.float32), (ZERO, ONE), {"a": ZERO}, 1, 1.0, "1", None, D]
    assert len({digest(each) for each in data}) == len(data)
    assert digest(object()) is None


KILLED = """
import sys, time
import numpy as np
from sordino.audit.runners.outputs import outputs

def slow(data, generator):
    time.sleep(0.01)
    return data.sum() + generator.normal(size=2)

found = outputs(slow, np.zeros(3), np.array([0, 0, 1.0]), 60, file=sys.argv[1], workers=1)
np.save(sys.argv[2], np.stack(found))
"""


@pytest.mark.slow
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
