"""What a study says of its release is verified when it is said: on every page, and on going on."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import sordino
from sordino.assessment import pages
from sordino.assessment.directory import AssessmentError
from sordino.privacy import Guarantee
from sordino.release import bundle
from sordino.release.certificate import Certificate
from sordino.report import result

CORPUS = Path(__file__).parents[1] / "corpus"
REFUSED = r"model (does not hold up|is of another release)"
FORMATS = ("html", "md", "json")
PAGES = [(form, of) for form in FORMATS for of in (True, False)]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study that was finished long ago."""
    place = tmp_path_factory.mktemp("kept")
    with tarfile.open(CORPUS / "assessed.tar.gz") as archive:
        archive.extractall(place, filter="data")
    return place / "assessed"


@pytest.fixture
def study(kept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(kept, tmp_path / "study"))


def _goes_on(study: Path) -> None:
    asked = {"effort": "quick", "seeds": 20, "neighbours": 2, "audit_runs": 200}
    sordino.assess(data="breast-cancer", epsilon=2.0, out=study, **asked)


def _edit(path: Path, change: Callable[[Any], object]) -> None:
    values = json.loads(path.read_text())
    change(values)
    written = {"indent": 2, "sort_keys": True} if path.name == bundle.CERTIFICATE else {}
    path.write_text(json.dumps(values, **written) + "\n" * bool(written))


def _everywhere(study: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the certificate wherever the study keeps it, and what is said to be proved with it."""
    papers = study / "model" / bundle.CERTIFICATE
    _edit(papers, change)
    text, guarantee = papers.read_text(), json.loads(papers.read_text())["guarantee"]

    def told(kept: dict[str, Any]) -> None:
        kept.update((name, guarantee[name]) for name in kept)

    _edit(study / "stages" / "release.json", lambda v: v["found"].update(certificate=text))
    _edit(study / "stages" / "prove.json", lambda v: told(v["found"]["guarantee"]))
    _retell(study, Certificate.from_json(text).guarantee, certificate=text)


def _retell(study: Path, proved: Guarantee | None, **release: str) -> None:
    """Change what the study says of its release, in a document without contradictions."""
    found = pages.read(study)
    assert found.proved_parts is not None
    assert found.release is not None
    told = replace(
        found,
        proved_parts=replace(found.proved_parts, guarantee=proved),
        release=replace(found.release, **release),
    )
    (study / "assessment.json").write_text(result.dumps(told))


def _better(certificate: dict[str, Any]) -> None:
    certificate["guarantee"]["epsilon"] = 0.1


def _flipped(study: Path) -> None:
    found = bundle.read(study / "model")
    flipped = bundle.weights_file(-found.coef, -found.intercept)
    (study / "model" / bundle.WEIGHTS).write_bytes(flipped)


def _of_another_release(study: Path) -> None:
    shutil.rmtree(study / "model")
    shutil.copytree(CORPUS / "bundles" / "auto-named", study / "model")


SPOILT: dict[str, Callable[[Path], object]] = {
    "an edited certificate": lambda study: _edit(study / "model" / bundle.CERTIFICATE, _better),
    "one that is edited everywhere": lambda study: _everywhere(study, _better),
    "other noise, everywhere": lambda study: _everywhere(study, lambda v: v.update(noise="none")),
    "other settings, everywhere": lambda study: _everywhere(
        study, lambda v: v["model"]["settings"].update(data_norm=0.5)
    ),
    "flipped weights": _flipped,
    "another release's model": _of_another_release,
    "no weights": lambda study: (study / "model" / bundle.WEIGHTS).unlink(),
}


def test_an_honest_study_is_shown_and_goes_on(study: Path) -> None:
    for form, of in PAGES:
        assert pages.page_text(study, form, public=of)
    pages.verified(study, pages.read(study).release, pages.read(study).proved)


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_no_page_says_proved_of_what_does_not_hold(
    study: Path, spoil: Callable[[Path], object]
) -> None:
    spoil(study)
    for form, of in PAGES:
        with pytest.raises(AssessmentError, match=REFUSED):
            pages.page_text(study, form, public=of)


@pytest.mark.filterwarnings("ignore::sordino.PrivacyLeakWarning")
@pytest.mark.parametrize(
    "name", ["one that is edited everywhere", "flipped weights", "another release's model"]
)
def test_a_study_does_not_go_on_with_what_does_not_hold(study: Path, name: str) -> None:
    SPOILT[name](study)
    page = (study / "report.html").read_bytes()
    with pytest.raises(AssessmentError, match=REFUSED):
        _goes_on(study)
    assert (study / "report.html").read_bytes() == page


def test_numbers_beside_the_certificate_must_be_its_own(study: Path) -> None:
    proved = pages.read(study).proved
    assert proved is not None
    _retell(study, replace(proved, epsilon=0.1))
    for form, of in PAGES:
        with pytest.raises(AssessmentError, match="contradicts its certificate"):
            pages.page_text(study, form, public=of)


def _lower(place: str) -> Callable[[dict[str, Any]], None]:
    def change(values: dict[str, Any]) -> None:
        parts = values["proved_parts"]
        if place == "best_guess":
            parts["best_guess"] = 0.5 + 0.9 * (parts["best_guess"] - 0.5)
        elif place == "tradeoff":
            parts["tradeoff"]["y"][40] *= 1.05
        elif place == "none applies":
            bound = next(each for each in parts["bounds"] if each["epsilon"] is None)
            bound["epsilon"] = 1.9
        else:
            bound = [each for each in parts["bounds"] if each["epsilon"] is not None][int(place)]
            bound["epsilon"] *= 0.99
        if place == "-2":
            bound["name"] = "a theorem of mine"
            bound["epsilon"] = 0.5

    return change


@pytest.mark.parametrize("place", ["0", "1", "-1", "-2", "none applies", "best_guess", "tradeoff"])
def test_the_internal_page_says_no_more_than_the_certificate_proves(
    study: Path, place: str
) -> None:
    _edit(study / "assessment.json", _lower(place))
    for form in FORMATS:
        with pytest.raises(AssessmentError, match="says more than its certificate proves"):
            pages.page_text(study, form, public=False)


def test_a_model_that_was_published_and_taken_away(study: Path) -> None:
    """The page for those who made it goes by the certificate that the study keeps."""
    shutil.rmtree(study / "model")
    assert "proved" in pages.page_text(study, "html", public=False)
    with pytest.raises(AssessmentError, match="to hold a released model"):
        pages.page_text(study, "html", public=True)
    _retell(study, pages.read(study).proved, certificate="{}")
    with pytest.raises(AssessmentError, match="does not hold up"):
        pages.page_text(study, "html", public=False)
