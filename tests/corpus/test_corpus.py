"""What earlier versions wrote is still read, and still says the same."""

from __future__ import annotations

import json
import shutil
import tarfile
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sordino
from sordino import Ledger
from sordino.assessment import pages
from sordino.intrinsic import grid
from sordino.intrinsic.measure import measure
from sordino.randomness import RESULTS
from sordino.release import bundle, signature
from sordino.release.certificate import Certificate
from sordino.release.verify import verify, verify_certificate
from sordino.study import Study, StudyError

HERE = Path(__file__).parent
BUNDLES = sorted(path for path in (HERE / "bundles").iterdir() if path.is_dir())
SIGNED = [path for path in BUNDLES if path.name.startswith("people-")]

each_bundle = pytest.mark.parametrize("path", BUNDLES, ids=lambda path: path.name)


def _noted(path: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(path.with_suffix(".json").read_text())
    return values


def _unpacked(name: str, tmp_path: Path) -> Path:
    with tarfile.open(HERE / f"{name}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / name


def test_every_method_is_there() -> None:
    named = {_noted(path)["method"] for path in BUNDLES}
    trained = {"rsgd-ar", "nsgd", "bolt-on", "output-gd", "noisy-gd", "dp-sgd"}
    assert named == {*trained, "objective", "dp-agd", "none", "majority"}
    assert len(SIGNED) == 3


@each_bundle
def test_a_bundle_is_verified_and_says_the_same(path: Path) -> None:
    noted, found = _noted(path), bundle.read(path)
    verdict = verify(found)
    assert not any(finding.startswith("Note") for finding in verdict.findings)
    alone = Certificate.from_json((path / bundle.CERTIFICATE).read_bytes())
    assert alone.to_json().encode() == (path / bundle.CERTIFICATE).read_bytes()
    assert verify_certificate(alone).guarantee == verdict.guarantee
    promised = verdict.guarantee
    if promised is None:
        assert noted["epsilon"] is None
        assert "NOTHING IS PROMISED" in str(alone)
        return
    assert (promised.epsilon, promised.delta) == (noted["epsilon"], noted["delta"])
    assert (promised.unit, promised.relation.value) == (noted["unit"], noted["relation"])
    assert "WHAT IS PROMISED" in str(alone)


@each_bundle
def test_a_bundle_is_loaded_and_predicts_the_same_labels(path: Path) -> None:
    noted, model = _noted(path), sordino.load(path)
    assert (type(model).__name__, model.method_) == (noted["estimator"], noted["method"])
    rows = pd.DataFrame(noted["rows"], columns=getattr(model, "feature_names_in_", None))
    given = rows if hasattr(model, "feature_names_in_") else rows.to_numpy()
    assert model.predict(given).tolist() == noted["labels"]


@pytest.mark.parametrize("path", SIGNED, ids=lambda path: path.name)
def test_signatures_still_hold(path: Path) -> None:
    key = signature.load_public(HERE / "public.pem")
    assert "was signed by the key" in str(verify(bundle.read(path), public_key=key))


def test_a_ledger_is_read_and_adds_up_to_the_same(tmp_path: Path) -> None:
    path = shutil.copy(HERE / "ledger.db", tmp_path)  # reading makes a log beside it
    noted = json.loads((HERE / "ledger.json").read_text())
    assert {budget.dataset for budget in Ledger.datasets(path)} == set(noted)
    for name, was in noted.items():
        status = Ledger(path, dataset=name).status()
        # The same law on another grid: see docs/accounting.md.
        assert status.spent.epsilon == pytest.approx(was["epsilon"], rel=1e-4)
        assert len(status.entries) == was["entries"]
    assert Ledger(path, dataset="as you go").status().budget.as_you_go


def test_a_measurement_is_read(tmp_path: Path) -> None:
    found = grid.load(_unpacked("measured", tmp_path))
    assert (found.dataset.name, found.steps) == ("breast-cancer", (10, 20))
    assert (len(found.seeds), found.inits) == (3, ("vary", "fixed"))


@pytest.mark.slow  # compiles the engine
def test_a_measurement_stopped_half_way_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sordino.data.catalogue.recipes import load

    half, whole = _unpacked("measured-half", tmp_path), _unpacked("measured", tmp_path)
    spec = grid.load(whole).spec
    arguments: Any = (spec, load("breast-cancer").train, 3, 2)
    written = json.loads((half / "study.json").read_text())
    versions = written["description"]["versions"]
    monkeypatch.setattr(sordino, "__version__", "9.9")  # what a seed gives is compared instead
    if any(_version(name) != version for name, version in versions.items()):
        with pytest.raises(StudyError):  # other libraries may give other bytes
            measure(*arguments, checkpoints=2, store=half)
        return
    study = measure(*arguments, checkpoints=2, store=half, workers=1)
    assert isinstance(study, Study)
    ours, theirs = grid.load(half), grid.load(whole)
    for init in theirs.inits:
        np.testing.assert_allclose(ours.weights(init), theirs.weights(init), rtol=1e-5, atol=1e-7)


def _version(name: str) -> str:
    return RESULTS if name == "sordino" else metadata.version(name).split("+")[0]


def test_an_assessment_is_read_and_shown(tmp_path: Path) -> None:
    path = _unpacked("assessed", tmp_path)
    found = pages.read(path)
    assert found.proved is not None
    assert found.proved.epsilon <= 2.0
    assert "INTERNAL" in pages.page_text(path, "html", public=False)
    for form in ("html", "md"):
        assert "proved" in pages.page_text(path, form, public=True)
    shown = json.loads(pages.page_text(path, "json", public=True))
    assert shown["certificate"]["guarantee"]["epsilon"] == found.proved.epsilon


@pytest.mark.filterwarnings("ignore::sordino.PrivacyLeakWarning")
@pytest.mark.parametrize(
    "name", ["assessed", pytest.param("assessed-half", marks=pytest.mark.slow)]
)
def test_an_assessment_goes_on_with_the_model_it_released(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _unpacked(name, tmp_path)
    before = (path / "model" / bundle.CERTIFICATE).read_bytes()
    monkeypatch.setattr(sordino, "__version__", "9.9")  # formats are compared, not versions
    asked = {"effort": "quick", "seeds": 20, "neighbours": 2, "audit_runs": 200}
    found = sordino.assess(data="breast-cancer", epsilon=2.0, out=path, **asked)
    assert found.release is not None
    assert found.release.certificate.encode() == before
    assert (path / "model" / bundle.CERTIFICATE).read_bytes() == before
    assert (path / "report.html").exists()
