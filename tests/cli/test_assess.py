"""`sordino assess` and `sordino report` as a shell sees them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from sordino.assessment.request import Request

SMALL = ("--quick", "--seeds", 20, "--neighbours", 2, "--audit-runs", 200)
MINE = """
import numpy as np


def train(data, generator):
    X, y = data
    return X.mean(axis=0)


def pair():
    return np.zeros(3), np.array([0.0, 0.0, 1.0])


def quiet(data, generator):
    return data.sum() + 8.0 * generator.standard_normal()
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(3)
    ages, sexes = rng.integers(18, 90, 150), rng.choice(["f", "m"], 150)
    ill = ["yes" if age + rng.normal(0, 15) > 55 else "no" for age in ages]
    ages = ["" if at % 29 == 0 else str(age) for at, age in enumerate(ages)]  # some are missing
    path = tmp_path_factory.mktemp("table") / "patients.csv"
    rows = [f"{a},{s},{i}" for a, s, i in zip(ages, sexes, ill, strict=True)]
    path.write_text("age,sex,ill\n" + "\n".join(rows) + "\n")
    return path


def test_a_table_of_ones_own_its_pages_and_what_changes_later(program, table: Path) -> None:
    study, out = table.with_name("study.toml"), table.with_name("study")
    study.write_text(
        'data = "patients.csv"\ntarget = "ill"\nclasses = ["no", "yes"]\nepsilon = 4.0\n\n'
        "[columns.age]\nbounds = [0, 120]\n"
    )
    asked = ("assess", study, *SMALL, "--out", out)
    for options in LATER:  # what a later stage would refuse is refused before the release
        code, text, _ = program(*asked, *options)
        assert (code, text) == (2, "")
        assert not out.exists()
    code, text, err = program(*asked, "--public")
    assert code == 0, err
    assert "epsilon is at most 4 (proved)" in text
    for kind in ("proved", "estimated", "observed", "un-noised SGD"):
        assert kind in text
    assert f"the page: {out / 'report.html'}" in text
    assert f"the page that may leave: {out / 'public.html'}" in text
    # The column that nobody described was read off the rows: said now, and on the page.
    assert "Warning: " in err
    assert "levels of column 2 of the file" in err
    for stage in ("reading the records", "attacking the release", "in all"):
        assert stage in err
    page = (out / "report.html").read_text()
    assert "levels" in page
    assert "INTERNAL" in page
    assert "PUBLIC" in (out / "public.html").read_text()

    code, text, _ = program("report", out, "--format", "json", "--out", "-")
    assert json.loads(text)["schema"] == "sordino-assessment"
    (out / "report.html").unlink()
    code, text, _ = program("report", out)
    assert (code, (out / "report.html").read_text()) == (0, page)
    assert "INTERNAL" in text
    code, text, _ = program("report", out, "--public", "--format", "md", "--out", "-")
    assert text.startswith("# ")
    assert "observed" not in text

    model = (out / "model" / "model.safetensors").read_bytes()
    assert program(*asked, "--audit-runs", 10**12)[0] == 2
    code, text, _ = program(*asked, "--audit-runs", 210, "--confidence", 0.95)
    assert code == 0
    assert "95%" in text
    assert (out / "model" / "model.safetensors").read_bytes() == model
    code, _, err = program(*asked, "--epsilon", 1.5)
    assert code == 2
    assert "epsilon is 1.5 here and 4.0 there" in err


LATER = (
    ("--audit-runs", 10**12),
    ("--seeds", 10**6),
    ("--confidence", 1 - 1e-15, "--audit-runs", 64),
)


def test_a_study_to_edit_is_what_it_does_by_itself(program, tmp_path: Path) -> None:
    code, text, err = program("assess", "--write-study")
    assert (code, err) == (0, "")
    assert Request.from_toml(text) == Request()
    assert Request().default_directory() == "assessment-digits-binary-logistic-epsilon-1"


def test_a_mechanism_that_claims_too_much_is_called_broken(program, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    name = f"{tmp_path / 'mine.py'}:train"
    out = tmp_path / "out"
    asked = ("--data", "breast-cancer", "--epsilon", 1, "--audit-runs", 200, "--out", out)
    code, text, _ = program("assess", "--mechanism", name, *asked)
    assert code == 1
    assert text.strip().startswith("BROKEN")
    page = (out / "report.html").read_text()
    assert "BROKEN" in page[page.index("<h1") : page.index("</h1>")]


def test_a_mechanism_that_keeps_its_claim_is_not(program, tmp_path: Path) -> None:
    (tmp_path / "quiet_one.py").write_text(MINE)
    mine = f"{tmp_path / 'quiet_one.py'}"
    asked = ("--mechanism", f"{mine}:quiet", "--pair", f"{mine}:pair", "--epsilon", 1)
    code, text, _ = program("assess", *asked, "--audit-runs", 1000, "--out", tmp_path / "out")
    assert code == 0
    assert "BROKEN" not in text


WRONG = {
    "target": ("--target", "il"),
    "--target": (),
    "epsilon": ("--target", "ill", "--epsilon", 0),
    "advantage": ("--target", "ill", "--epsilon", 1, "--advantage", 0.05),
    "detection": ("--target", "ill", "--detection", "0.01@0.02"),
    "delta": ("--target", "ill", "--delta", 1),
    "model": ("--target", "ill", "--model", "logistics"),
    "method": ("--target", "ill", "--method", "rsgd"),
    "--quick": ("--target", "ill", "--quick", "--thorough"),
    "pair": ("--target", "ill", "--pair", "x:y"),
    "--public": ("--target", "ill", "--model", "mlp", "--public"),
    "data": ("--mechanism", "gallery:none", "--pair", "x:y"),
}
"""Options, by the argument that is refused."""


@pytest.mark.parametrize("argument", WRONG)
def test_wrong_input_is_a_sentence_and_nothing_is_written(
    refused, table: Path, tmp_path: Path, argument: str
) -> None:
    out = tmp_path / "out"
    assert refused("assess", "--data", table, *WRONG[argument], "--out", out) == argument
    assert not out.exists()


def test_a_public_page_of_a_mechanism_is_refused(refused, tmp_path: Path) -> None:
    asked = ("--mechanism", "gallery:none", "--public", "--out", tmp_path / "out")
    assert refused("assess", *asked) == "--public"


FILES = {
    "empty": ("", "empty"),
    "header": ("age,ill\n", "no rows"),
    "constant": ("age,one,ill\n" + "1,7,no\n2,7,yes\n" * 50, "one"),
    "ten rows": ("age,ill\n" + "1,no\n2,yes\n" * 5, "rows"),
    "one class": ("age,ill\n" + "1,no\n2,no\n" * 50, "ill"),
}


@pytest.mark.parametrize("case", FILES)
def test_files_that_cannot_be_assessed(program, tmp_path: Path, case: str) -> None:
    content, said = FILES[case]
    path, out = tmp_path / "table.csv", tmp_path / "out"
    path.write_text(content)
    code, text, err = program("assess", "--data", path, "--target", "ill", "--out", out)
    assert (code, text) == (2, "")
    last = err.strip().splitlines()[-1]
    assert said in last
    assert not out.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_permission(program, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    code, _, err = program("assess", "--out", tmp_path / "closed" / "study")
    assert code == 2
    assert "writable" in err


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="only Linux has /proc")
def test_a_place_where_nobody_can_write(program) -> None:
    code, _, err = program("assess", "--out", "/proc/study", "--data", "breast-cancer")
    assert code == 2
    assert "Expected --out=/proc/study to be a directory that can be made" in err


def test_a_place_that_cannot_be_a_directory(program, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "study"):
        code, _, err = program("assess", "--out", place)
        assert code == 2
        assert "Expected --out=" in err
        assert (tmp_path / "file").read_text() == ""


def test_a_claim_must_be_said(program, tmp_path: Path) -> None:
    code, _, err = program("assess", "--mechanism", "a:b", "--out", tmp_path / "out")
    assert code == 2
    assert "Expected --epsilon E with --mechanism." in err


def test_a_study_that_is_none(program, tmp_path: Path) -> None:
    code, _, err = program("report", tmp_path)
    assert code == 1
    assert "made by `sordino assess`" in err
    code, _, err = program("assess", tmp_path / "none.toml")
    assert code == 2
    assert "--write-study" in err


def test_a_study_file_that_names_code_needs_a_word_of_trust(program, tmp_path: Path) -> None:
    """Somebody else chose that code; it is not even imported."""
    mark, mine, study = tmp_path / "ran", tmp_path / "somebodys.py", tmp_path / "study.toml"
    mine.write_text(f"import os\nos.mkdir({str(mark)!r})\ndef train(data, generator): return 0.0\n")
    for named in (
        'mechanism = "somebodys.py:train"',
        'mechanism = "gallery:none"\npair = "somebodys.py:p"',
    ):
        study.write_text(f"{named}\n")
        code, out, err = program("assess", study, "--out", tmp_path / "out")
        assert (code, out) == (2, "")
        assert err.startswith(f"Expected --run-code with {study}: its ")
        assert f"{tmp_path}/somebodys.py:" in err
        assert not mark.exists()
        assert not (tmp_path / "out").exists()
    study.write_text('data = "no-such-data"\nmechanism = "somebodys.py:train"\n')
    code, _, err = program("assess", study, "--run-code", "--out", tmp_path / "out")
    assert (code, mark.exists()) == (2, True)  # it was run, and then something else is wrong
    assert "--run-code" not in err
