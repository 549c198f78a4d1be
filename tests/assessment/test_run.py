"""The main job end to end: what it writes, that it goes on where it stopped, and releases once."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import sordino
from sordino import Estimate, Guarantee, Observation, tasks
from sordino.assessment import pages
from sordino.assessment.directory import AssessmentError
from sordino.assessment.request import Request
from sordino.assessment.run import Silent, assess
from sordino.assessment.stages.release import AnotherRelease
from sordino.release import bundle
from sordino.report import result
from sordino.report.result import STAGES, Assessment

pytestmark = pytest.mark.filterwarnings("ignore::sordino.PrivacyLeakWarning")

SMALL = {
    "data": "breast-cancer",
    "epsilon": 2.0,
    "effort": "quick",
    "seeds": 20,
    "neighbours": 2,
    "audit_runs": 200,
}
RELEASED = ("prove", "own_noise", "release_estimate", "attack_release", "attack_plain", "release")


class Watch(Silent):
    """Remembers what was done, and may stop it by Ctrl-C."""

    def __init__(self, stop_in: str = "") -> None:
        self.stop_in, self.done, self.resumed = stop_in, [], []

    def begin(self, stage, words):
        if stage != self.stop_in:
            return super().begin(stage, words)

        def stop(done, total):
            raise KeyboardInterrupt

        if stage in ("prove", "report"):  # these do not tell how far they are
            raise KeyboardInterrupt
        return stop

    def end(self, stage, seconds, *, resumed):
        (self.resumed if resumed else self.done).append(stage)


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> tuple[Path, Assessment]:
    place = tmp_path_factory.mktemp("assess") / "study"
    watch = Watch()
    found = assess(**SMALL, out=place, watch=watch)
    assert watch.done == ["read", *RELEASED, "report"]
    return place, found


def test_three_numbers_of_three_types(study) -> None:
    place, found = study
    assert isinstance(found.proved, Guarantee)
    assert isinstance(found.estimated, Estimate)
    assert isinstance(found.observed, Observation)
    certificate, _ = bundle.read_certificate(place / "model")
    assert found.proved == certificate.guarantee
    assert found.observed.epsilon <= found.proved.epsilon <= SMALL["epsilon"]
    assert not found.broken
    deltas = {found.proved.delta, found.estimated.delta, found.observed.delta}
    assert deltas == {found.question.delta}
    # The exact Gaussian epsilon of noise that is measured, for a record crafted to stand out:
    # positive, and no more than is proved but for its own uncertainty.
    assert 0 < found.estimated.low <= found.proved.epsilon


def test_ordinary_sgd_is_a_row_of_its_own(study) -> None:
    _, found = study
    assert found.plain_attack.claimed is None
    # The crafted record is told apart from its mirror image in all of 100 tested runs: the most
    # that so many runs can show at 99 %.
    assert found.plain_attack.observed.epsilon > found.proved.epsilon
    assert found.own_noise.estimated.headline.epsilon > found.plain_attack.observed.epsilon
    assert found.own_noise.seeds == SMALL["seeds"]


def test_the_directory_is_internal_and_whole(study) -> None:
    place, found = study
    assert place.stat().st_mode & 0o777 == 0o700
    assert (place / "README.txt").read_text().startswith("INTERNAL")
    assert result.loads((place / "assessment.json").read_text()) == found
    assert Request.from_file(place / "study.toml") == Request(**SMALL)
    page = (place / "report.html").read_text()
    assert "INTERNAL" in page
    assert pages.read(place) == found
    assert set(found.provenance.seconds) == {"read", *RELEASED}


def test_the_same_command_does_nothing_twice(study) -> None:
    place, found = study
    model = (place / "model" / "model.safetensors").read_bytes()
    watch = Watch()
    again = assess(Request.from_file(place / "study.toml"), out=place, watch=watch)
    # Proofs cost nothing, and what was kept of them may have been changed.
    assert watch.resumed == [stage for stage in RELEASED if stage != "prove"]
    assert (place / "model" / "model.safetensors").read_bytes() == model
    assert again.attacks == found.attacks
    assert again.own_noise == found.own_noise
    assert again.release == found.release


def test_a_cluster_gives_the_same_bytes(
    study, undrawn, dask_threads, tmp_path: Path, monkeypatch
) -> None:
    here, there = study[0], tmp_path / "study"
    sent, on_cluster = [], tasks._on_cluster

    def spy(client, function, *rest):
        sent.append(function)
        return on_cluster(client, function, *rest)

    monkeypatch.setattr(tasks, "_on_cluster", spy)
    assess(**SMALL, out=there, client=dask_threads)
    assert sent
    for stage in RELEASED[:-1]:  # of the release itself, whose noise is the system's, nothing
        found = [json.loads((at / "stages" / f"{stage}.json").read_text()) for at in (here, there)]
        assert found[0]["found"] == found[1]["found"]
        assert _content(here / "work" / stage) == _content(there / "work" / stage)


def _content(place: Path) -> dict[Path, bytes]:
    """What a directory holds; blocks of outputs stand there in the order in which they finished."""
    files = {each: each.read_bytes() for each in place.rglob("*") if each.is_file()}
    return {
        each.relative_to(place): bytes(sorted(read)) if each.suffix == ".outputs" else read
        for each, read in files.items()
    }


@pytest.mark.parametrize(
    "stage",
    [
        pytest.param(stage, marks=pytest.mark.slow) if stage != "attack_plain" else stage
        for stage in (*RELEASED[1:], "report")
    ],
)
def test_stopped_by_ctrl_c_it_goes_on(study, undrawn, tmp_path: Path, stage: str) -> None:
    _, found = study
    place = tmp_path / "study"
    with pytest.raises(KeyboardInterrupt):
        assess(**SMALL, out=place, watch=Watch(stop_in=stage))
    assert not (place / "report.html").exists()
    stages = (*RELEASED, "report")
    before = stages[: stages.index(stage)]
    model = place / "model" / "model.safetensors"
    kept = model.read_bytes() if model.exists() else None
    assert kept is not None or "release" not in before
    with pytest.raises(AssessmentError, match="resumes it"):
        pages.read(place)
    watch = Watch()
    again = assess(**SMALL, out=place, watch=watch)
    assert watch.resumed == [stage for stage in before if stage != "prove"]
    if kept is not None:
        assert model.read_bytes() == kept  # a second model would be a second release
    # Everything but the release itself, whose noise is the system's, is the same as without a stop.
    assert again.own_noise == found.own_noise
    assert again.release_estimated == found.release_estimated
    assert again.attacks == found.attacks
    assert again.proved_parts == found.proved_parts


def test_another_question_is_refused(study) -> None:
    place, _ = study
    before = sorted(path.stat().st_mtime_ns for path in place.rglob("*"))
    with pytest.raises(AssessmentError, match=r"and epsilon is 3.0 here and 2.0 there"):
        assess(**{**SMALL, "epsilon": 3.0}, out=place)
    assert sorted(path.stat().st_mtime_ns for path in place.rglob("*")) == before


def test_other_records_are_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = tmp_path / "table.csv"

    def write() -> None:
        X = rng.uniform(size=(80, 2))
        rows = [f"{a:.4f},{b:.4f},{'yes' if a > b else 'no'}" for a, b in X]
        table.write_text("a,b,ill\n" + "\n".join(rows))

    write()
    asked = {**SMALL, "data": str(table), "target": "ill", "classes": "no,yes"}
    with pytest.raises(KeyboardInterrupt):
        assess(**asked, out=tmp_path / "study", watch=Watch(stop_in="own_noise"))
    write()
    with pytest.raises(AssessmentError, match="same records, code and columns"):
        assess(**asked, out=tmp_path / "study")


def test_another_description_of_the_columns_is_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows = [f"{a:.4f},{'yes' if a > 0.5 else 'no'}" for a in rng.uniform(size=80)]
    (tmp_path / "table.csv").write_text("a,ill\n" + "\n".join(rows))
    columns = tmp_path / "columns.toml"
    known = 'target = "ill"\nclasses = ["no", "yes"]\n[columns.a]\nbounds = [0, 1]\n'
    columns.write_text("read_from_data = true\n" + known)
    asked = {**SMALL, "data": str(tmp_path / "table.csv"), "columns": str(columns)}
    with pytest.raises(KeyboardInterrupt):
        assess(**asked, out=tmp_path / "study", watch=Watch(stop_in="own_noise"))
    columns.write_text(known)  # the same numbers, but now they are said to be public
    with pytest.raises(AssessmentError, match="same records, code and columns"):
        assess(**asked, out=tmp_path / "study")


@pytest.mark.slow
def test_a_model_that_was_taken_away_is_not_made_again(study, undrawn, tmp_path: Path) -> None:
    place = tmp_path / "study"
    with pytest.raises(KeyboardInterrupt):
        assess(**SMALL, out=place, watch=Watch(stop_in="report"))
    (place / "stages" / "release.json").unlink()  # as if stopped while it was scored
    (place / "model").rename(tmp_path / "published")
    with pytest.raises(AnotherRelease, match="would be a second release"):
        assess(**SMALL, out=place)
    assert not (place / "model").exists()
    (tmp_path / "published").rename(place / "model")
    (place / ".model.00ff.partial").mkdir()  # as a kill while it is written leaves it
    found = assess(**SMALL, out=place)
    assert found.release.directory == "model"
    assert not list(place.glob("*.partial"))


def test_an_open_ledger_is_asked_first_and_charged_once(undrawn, tmp_path: Path) -> None:
    book = tmp_path / "ledger.db"
    with sordino.Ledger(book, dataset="mine", epsilon=2.2, delta=1e-5) as ledger:
        found = assess(**SMALL, out=tmp_path / "one")
        assert len(ledger.status().entries) == 1
        assert any("Charged to a ledger" in each for each in found.caveats)
        with pytest.raises(sordino.BudgetExceeded):
            assess(**SMALL, out=tmp_path / "two")
        assert not (tmp_path / "two").exists()
        with pytest.raises(sordino.InvalidArgument, match="while a ledger is open"):
            assess(**SMALL)
        assert len(ledger.status().entries) == 1


def test_what_an_attack_refuted_has_no_public_page(study, monkeypatch) -> None:
    place, _ = study
    monkeypatch.setattr(pages, "read", lambda root: SimpleNamespace(broken=True))
    with pytest.raises(AssessmentError, match="nothing may leave"):
        pages.page_text(place, "html", public=True)


def test_an_edited_mechanism_is_another_one(undrawn, tmp_path: Path) -> None:
    pair = _rows(0), _rows(1)
    asked = {"epsilon": 1.0, "delta": 1e-5, "audit_runs": 200, "out": tmp_path / "study"}
    loud, quiet = functools.partial(_noisy, scale=0.1), functools.partial(_noisy, scale=50.0)
    assert assess(mechanism=loud, pair=pair, **asked).broken
    with pytest.raises(AssessmentError, match="same records, code and columns"):
        assess(mechanism=quiet, pair=pair, **asked)


def test_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(AssessmentError, match=r"holds 'thesis.tex'"):
        assess(**SMALL, out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_the_public_page_comes_from_the_certificate_alone(study) -> None:
    place, found = study
    shown = pages.page_text(place, "html", public=True)
    data = pages.page_text(place, "json", public=True)
    text = pages.page_text(place, "md", public=True)
    accuracy = found.release.accuracy
    secrets = [found.provenance.fingerprint, f"{100 * accuracy.before.value:.1f}%", "held out"]
    for page in (shown, data, text):
        for secret in secrets:
            assert secret not in page
    for word in ("estimated", "observed"):
        assert word not in text
    assert "PUBLIC" in shown
    assert json.loads(data)["certificate"]["guarantee"]["epsilon"] == found.proved.epsilon


def test_printed_it_is_the_verdict_and_the_three_numbers(study) -> None:
    _, found = study
    first, *numbers = str(found).splitlines()
    assert first == _verdict(found)
    assert [line.split(":")[0] for line in numbers] == [
        "proved",
        "estimate, not a guarantee",
        "observed",
    ]


def test_a_setting_that_is_none_is_refused_with_the_nearest() -> None:
    with pytest.raises(sordino.InvalidArgument, match="Did you mean data"):
        assess(dta="breast-cancer")


def test_wrong_input_is_said_before_another_study_is(study) -> None:
    place, _ = study
    with pytest.raises(sordino.InvalidArgument, match="to exist"):
        assess(data="nowhere.csv", target="ill", out=place)


def test_a_notebook_gets_a_small_page(study) -> None:
    _, found = study
    shown = found._repr_html_()
    assert "<script" not in shown
    assert "<svg" in shown
    assert "estimated" in shown


def test_without_a_directory_nothing_is_kept(undrawn, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = sordino.assess(
        mechanism=_broken, pair=(_rows(0), _rows(1)), epsilon=1.0, delta=1e-5, audit_runs=2000
    )
    assert list(tmp_path.iterdir()) == []
    assert found.broken
    assert found.state == "broken"
    assert found.proved is None
    assert found.estimated is None
    assert re.match("BROKEN", _verdict(found))


def test_a_mechanism_that_keeps_its_claim_is_not_called_broken(undrawn) -> None:
    found = assess(
        mechanism=_kept, pair=(_rows(0), _rows(1)), epsilon=1.0, delta=1e-5, audit_runs=2000
    )
    assert not found.broken
    assert found.attack.claimed == 1.0
    assert found.state == "nothing proved"
    assert "BROKEN" not in _verdict(found)


def test_one_of_the_gallery_by_its_name(undrawn) -> None:
    found = assess(mechanism="gallery:fixed-seed", effort="quick")
    assert found.broken
    assert found.question.mechanism == "gallery:fixed-seed"
    with pytest.raises(sordino.InvalidArgument, match="A formula settles it"):
        assess(mechanism="gallery:classical-gaussian")
    with pytest.raises(sordino.InvalidArgument, match="Did you mean fixed-seed"):
        assess(mechanism="gallery:fixed-sed")


def test_every_stage_has_words() -> None:
    assert {"read", *RELEASED, "attack_mechanism", "report"} == set(STAGES)


def _rows(last: float):
    return np.array([0.0, 0.0, last])


def _broken(data, generator):
    """Noise for epsilon = 10 that is said to give 1."""
    return data.sum() + 0.3 * generator.standard_normal()


def _noisy(data, generator, scale):
    return data.sum() + scale * generator.standard_normal()


def _kept(data, generator):
    """Sensitivity 1; sigma 3.73 is the exact Gaussian's for (1, 1e-5), and this is more."""
    return data.sum() + 4.0 * generator.standard_normal()


def _verdict(found: Assessment) -> str:
    from sordino.report import words

    return words.verdict(found)
