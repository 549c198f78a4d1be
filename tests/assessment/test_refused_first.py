"""What can be refused is refused before the release, and looking harder is no second release."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sordino import InvalidArgument, Ledger
from sordino.assessment.directory import AssessmentError
from sordino.assessment.request import Request
from sordino.assessment.run import Silent, assess
from sordino.assessment.stages import attack, measure, prove, release
from sordino.data import DataError
from sordino.errors import NotApplicable, Refused
from sordino.estimators.classifiers import PrivateLinearClassifier
from sordino.report import sections
from sordino.report.result import Assessment
from sordino.study import StudyError

pytestmark = pytest.mark.filterwarnings("ignore::sordino.PrivacyLeakWarning")

SMALL = {"effort": "quick", "seeds": 20, "neighbours": 2, "audit_runs": 64}
STAGES = {
    "prove": (prove, "prove"),
    "own_noise": (measure, "own_noise"),
    "release_estimate": (measure, "release_estimate"),
    "attack_release": (attack, "attack_release"),
    "attack_plain": (attack, "attack_plain"),
    "release": (release, "linear_accuracy"),
}
"""Who does the work of each stage; of the release, all but the release."""
ATTACKS = ["attack_release", "attack_plain"]
GRIDS = ["own_noise", "release_estimate"]


class Watch(Silent):
    """Remembers what was done, and not only read again."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def end(self, stage: str, seconds: float, *, resumed: bool) -> None:
        if not resumed:
            self.done.append(stage)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A small study of a small table."""
    path = tmp_path_factory.mktemp("records") / "table.csv"
    X = np.random.default_rng(0).uniform(size=(80, 2))
    rows = [f"{a:.4f},{b:.4f},{'yes' if a > b else 'no'}" for a, b in X]
    path.write_text("a,b,ill\n" + "\n".join(rows))
    (path.parent / "other.csv").write_text("a,b,ill\n" + "\n".join(reversed(rows)))
    return {"data": str(path), "target": "ill", "classes": "no,yes", "epsilon": 2.0, **SMALL}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("assess") / "study"


@pytest.fixture(scope="module")
def study(asked: dict[str, Any], place: Path, without_pages: Any) -> Assessment:
    with without_pages():
        return assess(**asked, out=place)


@pytest.fixture
def cheap(study: Assessment, undrawn: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every stage but the proof and the release finds what it found before, at once.

    The proof must be of the same promise as the certificate: both are read against each other.
    """
    found = {
        "own_noise": study.own_noise,
        "release_estimate": study.release_estimated,
        "attack_release": study.attacks[0],
        "attack_plain": study.attacks[1],
        "release": study.release.accuracy,
    }
    for stage, value in found.items():
        where, name = STAGES[stage]
        monkeypatch.setattr(where, name, lambda *_, given=value, **__: given)


@contextmanager
def ledger(path: Path) -> Iterator[Ledger]:
    with Ledger(path, dataset="mine", epsilon=50, delta=1e-2) as opened:
        yield opened


def bundle_of(place: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (place / "model").iterdir()}


# Before the release -------------------------------------------------------------------------


def wrong(rng: random.Random, name: str, tmp: Path) -> Any:
    """A setting that nobody can assess, by chance."""
    huge = 10 ** rng.randint(13, 400)
    numbers = [0, -1, -rng.random(), float("nan"), float("inf"), "many", [1], b"1", True]
    texts = ["", "   ", 7, "\ud800", rng.randbytes(6).hex(), ["logistic"], {}]
    below = {"seeds": 20, "neighbours": 2, "audit_runs": 64, "max_rows_per_person": 1}
    if name in below:
        few = rng.randrange(-5, below[name])
        # More neighbours than there are records are all records.
        return rng.choice([few, rng.random() * 100, "many", *[huge] * (name != "neighbours")])
    if name == "confidence":
        return rng.choice([*numbers, 1, 0.5, 1 - 1e-16, 1 - 10 ** -rng.uniform(11, 15), 1.01, 99])
    if name == "epsilon":
        return rng.choice([*numbers, 5e-324, 1.7e308])
    if name == "delta":
        return rng.choice([*numbers, 1, 1.5, 1 - 2**-53])
    if name == "l2":
        return rng.choice([*numbers[1:], 5e-324])
    if name == "data_norm":
        return rng.choice([*numbers, 1e-31, 1e31])
    if name == "classes":
        return rng.choice(["no", "no,no", "no,,yes", [], ["no"], 5, "yes,maybe", [[1], [2]]])
    if name in ("data", "columns"):
        return rng.choice([str(tmp / "nowhere.csv"), str(tmp), *texts[:3], "no-such-dataset"])
    if name == "target":
        return rng.choice([*texts[:4], "nobody"])
    if name == "described":
        return rng.choice([{"nobody": {"bounds": [0, 1]}}, {"a": {"bounds": [1, 0]}}, {"a": 5}, 5])
    if name == "read_from_data":
        return rng.choice(["no", 1, 0.0])
    if name == "method":
        return rng.choice([*texts, "none", "majority"])
    if name in ("mechanism", "pair"):
        return rng.choice([*texts[:4], "mine", "gallery:nothing"])
    if name == "ledger":
        return rng.choice([str(tmp / "nowhere.db"), str(tmp), "a\0b", *texts])
    if name == "dataset":  # nothing is charged without a ledger
        return rng.choice([*texts, "mine"])
    if name == "data_dir":
        return rng.choice(texts[:4])
    if name in ("advantage", "detection", "reconstruction"):
        return rng.choice([*numbers, *texts, "0.01@0.02", "0.5@", "@0.5", "nan@nan", 1, "1@0.5"])
    if name == "person":
        return rng.choice([*texts[:4], "nobody"])
    assert name in ("model", "effort")
    return rng.choice(texts)


def test_whatever_setting_is_wrong_nothing_is_released(
    asked: dict[str, Any], cheap: None, tmp_path: Path
) -> None:
    rng, place = random.Random(18), tmp_path / "study"
    with ledger(tmp_path / "ledger.db") as book:
        for name in 5 * list(Request.__dataclass_fields__):
            value = wrong(rng, name, tmp_path)
            said = f"{name}={value!r}"
            try:
                assess(**asked | {name: value}, out=place)
                pytest.fail(f"{said} was taken")
            except (InvalidArgument, DataError, NotApplicable, Refused):
                pass
            except Exception as error:
                raise AssertionError(f"{said} is no sentence") from error
            assert not (place / "model").exists(), said
        assert book.status().entries == ()
        assert assess(**asked, out=place).release.directory == "model"  # the same place will do
        assert len(book.status().entries) == 1


@pytest.mark.parametrize("out", ["x" * 300, "a\0b", "table.csv", "table.csv/study", "/proc/study"])
def test_a_place_that_cannot_be_is_refused_first(
    asked: dict[str, Any], cheap: None, tmp_path: Path, out: str
) -> None:
    (tmp_path / "table.csv").touch()
    with ledger(tmp_path / "ledger.db") as book:
        with pytest.raises(InvalidArgument, match="Expected --out="):
            assess(**asked, out=tmp_path / out)
        assert book.status().entries == ()
        assess(**asked, out=tmp_path / "study")


@pytest.mark.parametrize("error", [InvalidArgument, MemoryError])
@pytest.mark.parametrize("stage", [*STAGES, "report"])
def test_whatever_stage_fails_nothing_is_released(
    asked: dict[str, Any],
    cheap: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stage: str,
    error: type[Exception],
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error("it cannot be done")

    where, name = STAGES.get(stage, (sections, "page"))
    place = tmp_path / "study"
    with ledger(tmp_path / "ledger.db") as book:
        with monkeypatch.context() as patch:
            patch.setattr(where, name, fails)
            with pytest.raises(error, match="it cannot be done"):
                assess(**asked, out=place)
        assert not (place / "model").exists()
        assert book.status().entries == ()
        # Corrected, it works, whatever had to be corrected.
        again = assess(**asked | {"epsilon": 3.0, "l2": 0.01}, out=place)
        assert again.question.epsilon == 3.0
        assert [entry.epsilon for entry in book.status().entries] == [pytest.approx(3)]


def test_what_was_found_is_kept_for_the_same_question(
    asked: dict[str, Any], cheap: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise StudyError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(attack, "attack_plain", fails)
        with pytest.raises(StudyError):
            assess(**asked, out=tmp_path / "study")
    watch = Watch()
    assess(**asked, out=tmp_path / "study", watch=watch)
    assert watch.done == ["read", "prove", "attack_plain", "release", "report"]


# After it -----------------------------------------------------------------------------------

HARDER = [
    ({"audit_runs": 66}, ATTACKS),
    ({"confidence": 0.9}, ATTACKS),
    ({"seeds": 21}, GRIDS),
    ({"neighbours": 3}, GRIDS),
    ({"effort": "standard"}, [*GRIDS, "release"]),
    ({"effort": "thorough", "seeds": 22, "confidence": 0.95}, [*GRIDS, *ATTACKS, "release"]),
]


LONGER = {"audit_runs": 100, "confidence": 0.9}


def no_fit(*_: object, **__: object) -> None:
    pytest.fail("a second release")


def test_looking_harder_keeps_the_release(
    asked: dict[str, Any], cheap: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, rng = tmp_path / "study", random.Random(0)
    assess(**asked, out=place)
    released, now = bundle_of(place), asked
    monkeypatch.setattr(PrivateLinearClassifier, "_save_planned", no_fit)
    monkeypatch.setattr(PrivateLinearClassifier, "fit", no_fit)
    for changed, stages in [*HARDER, *rng.sample(HARDER, 4)]:
        before, now = now, asked | changed
        redone = Request(**now).stages_to_repeat(Request(**before))
        watch = Watch()
        found = assess(**now, out=place, watch=watch)
        assert bundle_of(place) == released
        looked = [each for each in STAGES if each in redone and each != "prove"]
        assert watch.done == ["read", "prove", *looked, "report"]  # proved anew every time
        assert set(stages) <= set(redone) | set(
            Request(**before).stages_to_repeat(Request(**asked))
        )
        assert Request.from_file(place / "study.toml") == Request(**now)
        assert found.question.settings["confidence"] == now.get("confidence", 0.99)


def test_an_attack_alone_is_made_again(
    undrawn: None, asked: dict[str, Any], study: Assessment, place: Path, tmp_path: Path
) -> None:
    """With nothing in the place of a stage; and refused runs change nothing."""
    again, watch = tmp_path / "study", Watch()
    shutil.copytree(place, again)
    with pytest.raises(InvalidArgument, match="to fit into memory"):
        assess(**asked | {"audit_runs": 10**12}, out=again)
    assert (again / "report.html").exists()
    found = assess(**asked | LONGER, out=again, watch=watch)
    assert watch.done == ["read", "prove", *ATTACKS, "report"]
    assert bundle_of(again) == bundle_of(place)
    assert [attack.runs for attack in (*study.attacks, *found.attacks)] == [64, 64, 100, 100]
    assert found.observed.confidence == 0.9
    assert (found.release, found.own_noise) == (study.release, study.own_noise)


@pytest.mark.slow
@pytest.mark.parametrize("changed", [LONGER, {"seeds": 24, "neighbours": 3}], ids=str)
def test_looking_harder_is_as_if_it_had_been_asked_from_the_beginning(
    undrawn: None,
    asked: dict[str, Any],
    study: Assessment,
    place: Path,
    tmp_path: Path,
    changed: dict[str, Any],
) -> None:
    shutil.copytree(place, tmp_path / "study")
    later = assess(**asked | changed, out=tmp_path / "study")
    fresh = assess(**asked | changed, out=tmp_path / "fresh")
    assert fresh.attacks == later.attacks
    assert fresh.own_noise == later.own_noise
    assert fresh.release_estimated == later.release_estimated


@pytest.mark.parametrize(
    "changed",
    [
        {"epsilon": 2.5},
        {"delta": 1e-5},
        {"method": "output-gd"},
        {"l2": 0.1},
        {"model": "svm"},
        {"data_norm": 2.0},
        {"max_rows_per_person": 2},
        {"classes": "yes,no"},
        {"data": "other.csv"},
        {"described": {"a": {"bounds": [0, 1]}}},
        {"epsilon": 2.5, "audit_runs": 100, "effort": "standard"},
    ],
    ids=str,
)
def test_another_release_is_refused(
    asked: dict[str, Any], cheap: None, tmp_path: Path, changed: dict[str, Any]
) -> None:
    place = tmp_path / "study"
    assess(**asked, out=place)
    if "data" in changed:
        changed = {"data": str(Path(asked["data"]).with_name(changed["data"]))}
    before = {path: path.stat().st_mtime_ns for path in place.rglob("*")}
    with pytest.raises(AssessmentError, match="to hold this assessment"):
        assess(**asked | changed, out=place)
    assert {path: path.stat().st_mtime_ns for path in place.rglob("*")} == before


def test_other_records_are_refused_before_anything_is_dropped(
    asked: dict[str, Any], cheap: None, tmp_path: Path
) -> None:
    table, place = tmp_path / "table.csv", tmp_path / "study"
    table.write_bytes(Path(asked["data"]).read_bytes())
    assess(**asked | {"data": str(table)}, out=place)
    table.write_bytes(Path(asked["data"]).with_name("other.csv").read_bytes())
    with pytest.raises(AssessmentError, match="same records, code and columns"):
        assess(**asked | {"data": str(table), "confidence": 0.9}, out=place)
    assert (place / "report.html").exists()
    assert (place / "stages" / "attack_release.json").exists()


def test_a_finished_attack_on_a_mechanism_is_not_another_question_s(
    undrawn: None, tmp_path: Path
) -> None:
    """Nothing is released there; what was found is kept, and looking harder does it again."""
    pair = np.zeros(3), np.array([0.0, 0.0, 1.0])
    given: dict[str, Any] = {"pair": pair, "out": tmp_path / "study", "delta": 1e-5}
    assess(mechanism=_noisy, epsilon=1.0, audit_runs=100, **given)
    with pytest.raises(AssessmentError, match=r"epsilon is 2.0 here"):
        assess(mechanism=_noisy, epsilon=2.0, audit_runs=100, **given)
    with pytest.raises(InvalidArgument, match="to fit into memory"):
        assess(mechanism=_noisy, epsilon=1.0, audit_runs=10**13, **given)
    found = assess(mechanism=_noisy, epsilon=1.0, audit_runs=200, **given)
    assert [attack.runs for attack in found.attacks] == [200]


def _noisy(data: Any, generator: np.random.Generator) -> float:
    return float(data.sum() + 4.0 * generator.standard_normal())


# Extremes that may be assessed or not --------------------------------------------------------

EXTREMES = {
    "epsilon": [1e-300, 1e-12, 1e-3, 1e3, 1e12, 1e300],
    "delta": [5e-324, 1e-300, 1e-30, 0.5],
    "l2": [0, 1e-300, 1e-12, 1e6, 1e300],
    "data_norm": [1e-29, 1e-6, 1e6, 1e29],
    "max_rows_per_person": [100, 10**4, 10**12],
    "confidence": [0.5 + 1e-12, 1 - 1e-9, 1 - 1e-12],
    "neighbours": [10**6, 10**30],
    "seeds": [300, 5001],
    "audit_runs": [65, 10**12],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name in EXTREMES for value in EXTREMES[name]]
)
def test_extremes_are_assessed_or_refused_before_the_release(
    undrawn: None,
    asked: dict[str, Any],
    tmp_path: Path,
    request: pytest.FixtureRequest,
    name: str,
    value: Any,
) -> None:
    place = tmp_path / "study"
    try:
        assess(**asked | {name: value}, out=place)
    except (InvalidArgument, NotApplicable):
        assert not (place / "model").exists()
        request.getfixturevalue("cheap")
        assess(**asked, out=place)
    assert (place / "model").exists()
