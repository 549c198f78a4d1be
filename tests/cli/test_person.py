"""`--person`: rows are counted by a private column, and nothing of it or of the cut is told."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from damaged import WORDS, leaked

from sordino.assessment.request import Request
from sordino.assessment.run import Silent, assess
from sordino.proofs.proof import about_persons
from sordino.release import bundle

MOST, LEFT = 3, 203
COUNTS = ("7919", "7,919", "7922", "7,922", "8122", "8,122")
"""Rows that are cut, of the person who has most, and of the file: each is private."""
COLUMNS = 'target = "ill"\nclasses = ["no", "yes"]\n{}[columns.age]\nbounds = [0, 120]\n'
NOT_COUNTED, COUNTED = (about_persons(counted, MOST)[0] for counted in (False, True))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One person with 7,922 rows, and 200 with one row each."""
    draws, place = np.random.default_rng(5), tmp_path_factory.mktemp("people")
    ids = [WORDS[0]] * 7922 + [f"xq7j-{at}" for at in range(200)]
    ages = draws.integers(20, 90, len(ids))
    rows = [f"{i},{age},{'yes' if age > 55 else 'no'}" for i, age in zip(ids, ages, strict=True)]
    draws.shuffle(rows)
    (place / "people.csv").write_text("\n".join(["who,age,ill", *rows, ""]))
    (place / "columns.toml").write_text(COLUMNS.format('person = "who"\n'))
    (place / "without.toml").write_text(COLUMNS.format("") + "[columns.who]\nignore = true\n")
    return place / "people.csv"


def told(*texts: str) -> list[str]:
    """Ids and counts that these texts hold; a digest or a decimal holds no count."""
    whole = "\n".join(texts)
    numbers = (rf"(?<![0-9a-f.,]){each}(?![0-9a-f])" for each in COUNTS)
    return [*leaked(whole), *(each for each in numbers if re.search(each, whole))]


def test_the_tests_own_eyes_are_open() -> None:
    for count in COUNTS:
        assert told(f"{count} rows")
        assert told(f"cut: {count}.")
    assert told("of xq7J-5") == ["xq7j"]
    assert not told("203 rows, digest a7919b, 0.7919")


@pytest.mark.parametrize("how", ["typed", "described"])
def test_a_release_counts_and_tells_nothing_of_it(
    program, table: Path, tmp_path: Path, how: str
) -> None:
    out, given = tmp_path / "model", ("--data", table, "--max-rows-per-person", MOST)
    given += {
        "typed": ("--columns", table.with_name("without.toml"), "--person", "who"),
        "described": ("--columns", table.with_name("columns.toml")),
    }[how]
    asked = ("release", *given, "--epsilon", 4, "--method", "noisy-gd")
    said = [program(*asked, "--dry-run"), program(*asked, "--dry-run", "--json")]
    said += [program(*asked, "--out", out), program("certificate", "show", out)]
    said += [program("certificate", "verify", out)]
    assert [code for code, _, _ in said] == [0] * 5
    papers = (out / "certificate.json").read_text()
    assert told(papers, *(text for _, *texts in said for text in texts)) == []
    assert f"Persons: {COUNTED}" in said[0][1]
    assert f"Note: {COUNTED}.\n" in said[2][2]
    for shown in (said[2][1], said[3][1]):
        assert COUNTED in " ".join(shown.split())
    certificate = bundle.read(out).certificate
    training = certificate.evidence.training  # of rows that were centred before
    assert (training.rows, training.persons_counted) == (LEFT, True)
    assert 'person = "who"' in certificate.preprocessing.columns
    assert certificate.model.feature_names == ("age",)


def test_without_it_the_command_says_so(program, table: Path, tmp_path: Path) -> None:
    given = ("--data", table, "--columns", table.with_name("without.toml"))
    out, most = tmp_path / "model", ("--max-rows-per-person", MOST)
    asked = ("release", *given, *most, "--epsilon", 4, "--method", "noisy-gd")
    code, text, err = program(*asked, "--out", out)
    assert code == 0
    assert f"Note: {NOT_COUNTED}.\n" in err
    assert NOT_COUNTED in " ".join(text.split())


def test_where_the_number_of_rows_is_private_a_public_one_is_used(
    program, table: Path, tmp_path: Path
) -> None:
    out, given = tmp_path / "model", ("--data", table, "--columns", table.with_name("columns.toml"))
    relation = ("--relation", "add-or-remove-one", "--public-rows", 250, "--method", "dp-sgd")
    code, text, err = program("release", *given, *relation, "--epsilon", 4, "--out", out)
    assert code == 0, err
    training = bundle.read(out).certificate.evidence.training
    assert (training.rows, training.persons_counted) == (250, True)
    papers = (out / "certificate.json").read_text()
    assert told(text, err, papers) == []
    assert "how many are left in all is public" not in " ".join(text.split())
    # Here how many are left is private, too; --max-rows-per-person is 1.
    assert not re.search(r"(?<![0-9a-f.,])201(?![0-9a-f])", papers + text + err)


@pytest.mark.parametrize(
    "given",
    [
        ("--data", "breast-cancer", "--person", "who"),
        ("--person", "who"),
        ("--data", "TABLE", "--target", "who", "--person", "who"),
        ("--data", "TABLE", "--target", "ill", "--person", "whom"),
        ("--data", "TABLE", "--columns", "COLUMNS", "--person", "age"),
    ],
)
def test_a_column_that_cannot_be_is_refused(
    refused, table: Path, tmp_path: Path, given: tuple[str, ...]
) -> None:
    places = {"TABLE": table, "COLUMNS": table.with_name("columns.toml")}
    options = [places.get(each, each) for each in given]
    refused("release", *options, "--epsilon", 1, "--dry-run")
    if "--data" in given:
        refused("assess", *options, "--out", tmp_path / "study")
        assert not (tmp_path / "study").exists()


@pytest.mark.parametrize("command", [("measure",), ("audit", "--epsilon", 1)])
def test_commands_that_do_not_count_do_not_take_it(program, table: Path, command) -> None:
    code, text, err = program(*command, "--data", table, "--target", "ill", "--person", "who")
    assert (code, text) == (2, "")
    assert "No such option" in err


class Stop(Silent):
    """Ctrl-C in the first stage that takes a while."""

    def begin(self, stage, words):
        if stage == "own_noise":
            raise KeyboardInterrupt
        return super().begin(stage, words)


@pytest.mark.slow
def test_an_assessment_is_resumed_with_the_same_rows(program, table: Path, tmp_path: Path) -> None:
    study, out = tmp_path / "study.toml", tmp_path / "study"
    effort = {"effort": "quick", "seeds": 20, "neighbours": 2, "audit_runs": 200}
    asked = Request(
        str(table),
        columns=str(table.with_name("without.toml")),
        person="who",
        max_rows_per_person=MOST,
        epsilon=4.0,
        **effort,
    )
    study.write_text(asked.to_toml())
    with pytest.raises(KeyboardInterrupt):
        assess(asked, out=out, watch=Stop())
    state = json.loads((out / "state.json").read_text())
    secret = state["secret of the draws"]
    assert len(bytes.fromhex(secret)) == 32
    assert (out / "state.json").stat().st_mode & 0o777 == 0o600
    assert out.stat().st_mode & 0o777 == 0o700

    code, text, err = program("assess", study, "--out", out, "--public")
    assert code == 0, err
    assert json.loads((out / "state.json").read_text()) == state  # the same rows, and the same test
    model = (out / "model" / "model.safetensors").read_bytes()
    again = program("assess", study, "--out", out)
    assert again[:2] == (0, text.replace(f"  the page that may leave: {out / 'public.html'}\n", ""))
    assert (out / "model" / "model.safetensors").read_bytes() == model
    shown = program("report", out, "--public", "--format", "md", "--out", "-")[1]
    for page in (text, shown):
        assert COUNTED[1:] in page
    assert "Somebody with more than one id." in shown

    evidence = bundle.read(out / "model").certificate.evidence
    assert evidence.rows == LEFT * 80 // 100
    assert evidence.persons_counted is True
    files = [each for each in out.rglob("*") if each.is_file()]
    contents = {each.relative_to(out): each.read_bytes().decode("latin-1") for each in files}
    told_by = {str(name): told(content) for name, content in contents.items()}
    # Raw numbers of trainings and weights look like anything: these are checked for ids alone.
    text_files = {name for name in told_by if name.endswith((".json", ".html", ".toml", ".txt"))}
    assert len(text_files) > 8
    assert {name for name in text_files if told_by[name]} == set()
    assert not leaked(*contents.values())
    assert [str(name) for name, content in contents.items() if secret in content] == ["state.json"]
    assert told(text, err, shown, *again[1:]) == []
    assert secret not in text + err + shown

    (out / "state.json").write_text(json.dumps(state | {"secret of the draws": "none"}))
    code, text, err = program("assess", study, "--out", out)
    assert (code, text) == (2, ""), err
    assert "state.json is damaged" in err
    assert secret not in err
