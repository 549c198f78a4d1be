"""`sordino audit`: tables, verdicts, JSON, figures, and one sentence for what cannot be done."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sordino.audit import game

SMALL = ("audit", "--data", "breast-cancer", "--epsilon", 1, "--runs", 400)

MINE = '''
import numpy as np
from sklearn.linear_model import SGDClassifier

def pair():
    X = np.zeros((20, 2))
    other = X.copy()
    other[0, 0] = 1.0
    return X, other

def alike():
    return np.zeros((3, 2)), np.zeros((3, 2))

def far():
    return np.zeros((3, 2)), np.ones((3, 2))

def noisy(data, generator):
    """Sensitivity 1, noise 0.2: epsilon far above 1."""
    return data.sum(axis=0) + generator.normal(0, 0.2, 2)

def quiet(data, generator):
    return data.sum(axis=0) + generator.normal(0, 50.0, 2)

def shape(data, generator):
    X, y = data
    return [X.shape[0] + generator.normal()]

def ragged(data, generator):
    return np.zeros(int(generator.integers(1, 3)))

def undefined(data, generator):
    return [float("nan")]

def first(outputs):
    return outputs[:, 0]

number = 3
seeded = SGDClassifier(random_state=1)
'''


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request) -> str:
    """A module of the user's own, under a name that no other test has taken."""
    name = f"mine_{abs(hash(request.node.nodeid)):x}"
    (tmp_path / f"{name}.py").write_text(MINE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return name


def audit(program, mine: str, what: str, *more: object) -> tuple[int, str, str]:
    where = () if "--pair" in more or "--data" in more else ("--pair", f"{mine}:pair")
    return program("audit", f"{mine}:{what}", *where, "--runs", 500, *more)


class TestOwn:
    def test_a_method_of_ours_keeps_its_promise(self, program, tmp_path: Path) -> None:
        file = tmp_path / "roc.png"
        code, text, _ = program(*SMALL, "--method", "output-gd", "--plot", file)
        assert code == 0
        assert "output-gd at epsilon 1, logistic, breast-cancer; pair: 410 records" in text
        assert "Claimed: epsilon <= 1 at delta = 5e-06, replace-one" in text
        assert "Clopper-Pearson at one threshold" in text
        assert "Verdict: no violation found" in text
        assert file.read_bytes().startswith(b"\x89PNG")

    def test_json_has_the_claim_what_was_observed_and_the_verdict(self, program) -> None:
        code, text, err = program(*SMALL, "--method", "output-gd", "--json")
        assert code == 0
        found = json.loads(text)
        assert found["claimed"]["epsilon"] == pytest.approx(1.0)
        assert found["claimed"]["delta"] == pytest.approx(5e-6)
        assert set(found["observed"]) == {"epsilon", "delta", "confidence", "attack", "trials"}
        assert found["observed"]["trials"] == 400
        assert found["observed"]["epsilon"] <= 1.0
        assert found["verdict"].startswith("no violation found")
        assert "Warning: Not private" in err
        claim = found["claimed"]["epsilon"]  # its reach is that of the tested half
        how = {"runs": 200, "delta": found["claimed"]["delta"], "confidence": 0.99}
        assert found["reach"] == game.reach(claim, **how)

    def test_other_pairs(self, program, tmp_path: Path) -> None:
        code, text, _ = program(*SMALL, "--method", "output-gd", "--neighbour", "worst-case")
        assert code == 0
        assert "a synthetic worst case" in text
        study = tmp_path / "study"
        grid = ("--seeds", 20, "--neighbours", 2, "--steps", 10, "--init", "vary")
        assert program("measure", "--data", "breast-cancer", *grid, "--out", study)[0] == 0
        code, text, _ = program(*SMALL, "--method", "output-gd", "--study", study)
        assert code == 0
        assert "20 other seeds chose it" in text

    @pytest.mark.parametrize(
        ("options", "argument"),
        [
            (("--method", "rsgd"), "method"),
            (("--runs", 4), "runs"),
            (("--score", "los"), "--score"),
            (("--plot", "roc.txt"), "plot"),
            (("--rows", 1), "--rows"),
            (("--study", "s", "--relation", "zero-out"), "--relation"),
        ],
    )
    def test_bad_input_is_refused(self, refused, options, argument) -> None:
        assert refused(*SMALL, "--json", *options) == argument

    def test_what_is_needed(self, refused) -> None:
        assert refused("audit", "--runs", 100) == "--data"
        assert refused("audit", "--data", "breast-cancer") == "--epsilon"


class TestForeign:
    def test_a_false_claim_is_refuted_with_exit_code_1(self, program, mine) -> None:
        code, text, _ = audit(program, mine, "noisy", "--epsilon", 1)
        assert code == 1
        assert "Verdict: violation: observed epsilon >= " in text
        assert "above the claimed 1." in text

    def test_a_true_claim_stands(self, program, mine) -> None:
        code, text, _ = audit(program, mine, "quiet", "--epsilon", 1)
        assert code == 0
        assert "no violation found" in text

    def test_without_a_claim_the_bound_stands_for_itself(self, program, mine) -> None:
        code, text, _ = audit(program, mine, "noisy", "--score", f"{mine}:first", "--json")
        found = json.loads(text)
        assert code == 0
        assert found["claimed"] is None
        assert found["observed"]["epsilon"] > 2

    def test_a_file_by_its_path(self, program, mine) -> None:
        thing, pair = f"{mine}.py:noisy", f"{mine}.py:pair"
        assert program("audit", thing, "--pair", pair, "--epsilon", 1, "--runs", 500)[0] == 1

    def test_outputs_are_kept_and_used_again(self, program, mine, tmp_path: Path) -> None:
        file = tmp_path / "outputs"
        first = audit(program, mine, "noisy", "--outputs", file, "--json")
        kept = file.read_bytes()
        assert audit(program, mine, "noisy", "--outputs", file, "--json") == first
        assert file.read_bytes() == kept
        code, _, err = audit(program, mine, "quiet", "--outputs", file)
        assert code == 2  # 1 would mean: refuted
        assert "Traceback" not in err

    @pytest.mark.parametrize(
        ("what", "more", "argument"),
        [
            ("missing", (), "MODULE:NAME"),
            ("number", (), "mechanism"),
            ("noisy", ("--pair", "{mine}:alike"), "D_prime"),
            ("noisy", ("--pair", "{mine}:far"), "D_prime"),
            ("noisy", ("--pair", "{mine}:number"), "--pair"),
            ("noisy", ("--pair", "{mine}:noisy"), "--pair"),
            ("noisy", ("--score", "{mine}:number"), "--score"),
            ("noisy", ("--confidence", 1.5), "confidence"),
            ("noisy", ("--method", "output-gd"), "--method"),
            ("noisy", ("--neighbour", "worst-case"), "--neighbour"),
            ("noisy", ("--rows", 5), "--rows"),
            ("noisy", ("--target", "x"), "--data"),
            ("noisy", ("--dask", "nowhere"), "dask"),
        ],
    )
    def test_bad_input_is_refused(self, refused, mine, what, more, argument) -> None:
        run = lambda *words: refused(*words, "--json")  # noqa: E731
        more = tuple(str(each).replace("{mine}", mine) for each in more)
        assert audit(run, mine, what, *more) == argument

    @pytest.mark.parametrize(
        ("what", "more"),
        [("ragged", ()), ("undefined", ()), ("seeded", ("--data", "breast-cancer"))],
    )
    def test_outputs_that_cannot_be_judged(self, program, mine, what, more) -> None:
        code, out, err = audit(program, mine, what, *more)
        assert code == 2
        assert "Traceback" not in err + out

    def test_a_module_that_leaves(self, program, tmp_path: Path, monkeypatch) -> None:
        (tmp_path / "leaves_at_once.py").write_text("raise SystemExit(0)")
        monkeypatch.chdir(tmp_path)
        code, _, err = program("audit", "leaves_at_once:thing", "--data", "breast-cancer")
        assert code == 2
        assert "raised SystemExit" in err

    def test_what_a_function_is_given_is_said(self, program, mine, tmp_path: Path) -> None:
        given = ("--data", "breast-cancer", "--runs", 100)
        _, text, _ = audit(program, mine, "shape", *given)
        assert "pair: (X, y), 410 rows of 30 numbers" in text

    def test_a_misspelt_command(self, program) -> None:
        code, _, err = program("audit", "pwoer", "--runs", 100)
        assert code == 2
        assert "power" in err

    @pytest.mark.parametrize("text", ["nowhere:thing", "nowhere.py:thing"])
    def test_what_is_not_there(self, program, text) -> None:
        code, _, err = program("audit", text, "--data", "breast-cancer")
        assert code == 2
        assert "Expected MODULE:NAME" in err


class TestPower:
    def test_says_what_runs_could_show(self, program) -> None:
        code, text, _ = program("audit", "power", "--runs", 1000, "--confidence", 0.95)
        assert code == 0
        assert "an attack that never errs shows epsilon >= 5.6" in text

    def test_and_how_many_a_false_claim_needs(self, program) -> None:
        claim = ("--epsilon", 1, "--true-epsilon", 4)
        _, text, _ = program("audit", "power", *claim, "--json")
        found = json.loads(text)
        assert found["claimed"] == {"epsilon": 1.0, "delta": 1e-5}
        assert found["runs_needed"] == game.runs_needed(1, 4, delta=1e-5, confidence=0.99)
        assert f"about {found['runs_needed']:,} runs a world" in found["verdict"]
        _, text, _ = program("audit", "power", "--epsilon", 1, "--true-epsilon", 0.5)
        assert "no number of runs refutes a claim of 1 where the truth is 0.5" in text

    @pytest.mark.parametrize(
        "more", [("--runs", 0), ("--true-epsilon", 2), ("--confidence", 1), ("--delta", 1)]
    )
    def test_bad_input(self, program, more) -> None:
        code, _, err = program("audit", "power", *more)
        assert code == 2
        assert err.startswith("Expected")


class TestWorstCase:
    SMALL = ("audit", "worst-case", "--sample-rate", 0.01, "--steps", 200, "--epsilon", 8)

    def test_shows_that_hiding_iterates_hides_nothing(self, program, tmp_path: Path) -> None:
        file = tmp_path / "curves.svg"
        code, text, _ = program(*self.SMALL, "--runs", 2000, "--plot", file)
        assert code == 0
        assert "Claimed: epsilon <= 8 at delta = 1e-05, add-or-remove-one" in text
        assert "the final iterate shows as much as all iterates" in text
        assert "<svg" in file.read_text()

    def test_json(self, program) -> None:
        code, text, _ = program(*self.SMALL, "--runs", 1000, "--json")
        found = json.loads(text)
        assert code == 0
        assert found["observed"]["trials"] == 1000
        assert found["others"][0]["epsilon"] <= 8.0
        assert found["linear_loss_epsilon"] < 4.0

    def test_nothing_to_audit(self, program) -> None:
        rare = ("--sample-rate", 1e-6, "--steps", 10, "--epsilon", 1)
        code, _, err = program("audit", "worst-case", *rare)
        assert code == 2
        assert "the chance that a record is drawn" in err

    def test_either_epsilon_or_the_noise(self, program) -> None:
        code, _, err = program(*self.SMALL, "--noise-multiplier", 1)
        assert code == 2
        assert "to be one" in err


class TestGallery:
    def test_plays_what_is_named(self, program) -> None:
        code, text, _ = program("audit", "gallery", "classical-gaussian", "--json")
        found = json.loads(text)
        assert code == 0
        (entry,) = found["entries"]
        assert entry["verdict"] == "caught"
        assert entry["twin"]["verdict"] == "passes"
        assert entry["observed"]["epsilon"] > entry["claimed"]["epsilon"]
        assert found["verdict"].startswith("1 of 1 broken mechanisms caught")

    def test_lists_and_refuses(self, program) -> None:
        code, text, _ = program("audit", "gallery", "--list")
        assert code == 0
        assert len(text.splitlines()) == 12
        code, _, err = program("audit", "gallery", "one-bite-seed")
        assert code == 2
        assert "one-byte-seed" in err

    def test_a_missed_one_fails(self, program, monkeypatch) -> None:
        from dataclasses import replace

        from sordino.audit import gallery

        entry = gallery.find_entry("classical-gaussian")
        made = entry.case

        def sound():
            case = made()
            return replace(case, exact=(case.exact[1],) * 2)

        monkeypatch.setattr(gallery, "ENTRIES", (replace(entry, case=sound),))
        code, text, _ = program("audit", "gallery", "--smoke")
        assert code == 1
        assert "MISSED" in text
        assert "0 of 1 broken mechanisms caught" in text
