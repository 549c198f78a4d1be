"""`sordino calibrate` as a user runs it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from sordino.proofs import theorems

SHORT = {"--epsilon": "1", "--delta": "1e-5", "--sample-rate": "0.01", "--steps": "1000"}
SHORT |= {"--sampling": "poisson"}
CONVEX = {"loss": "logistic", "l2": 0.05, "learning_rate": 1, "n": 5000, "data_norm": 0.7}
ROW = {
    *("method", "applies", "noise_multiplier", "delta", "kind", "theorem"),
    *("relation", "released", "reason", "notes", "milliseconds"),
}


@pytest.fixture
def run(program):
    return program


@pytest.fixture
def ask(run):
    def ask(command: str = "calibrate", **changed: object):
        code, out, err = run(command, *options(**changed), "--json")
        assert (code, err) == (0, "")
        document = json.loads(out)
        return document, {row["method"]: row for row in document["rows"]}

    return ask


def options(**changed: object) -> list[str]:
    named = {f"--{name.replace('_', '-')}": value for name, value in changed.items()}
    both = {**SHORT, **named}
    return [
        part for name, value in both.items() if value is not None for part in (name, str(value))
    ]


class TestNoise:
    def test_the_golden_noises(self, ask):
        document, rows = ask()
        assert list(document) == ["inputs", "rows", "best", "assumes", "strong_over_naive"]
        assert all(set(row) == ROW for row in document["rows"])
        # docs/math.md 2.6: noise for epsilon = 1, delta = 1e-5, q = .01, T = 1000.
        golden = {"notes-naive": 52.988, "naive": 37.953, "strong-dwork": 8.65844}
        golden |= {"strong": 8.13499, "pld": 1.41463}
        for method, noise in golden.items():
            assert rows[method]["noise_multiplier"] == pytest.approx(noise, rel=2e-5)
        # Three conversions and fractional orders: no more than the table's 1.51312 by one of them.
        assert 1.41463 < rows["rdp"]["noise_multiplier"] <= 1.51313
        assert document["best"] == "pld"
        assert not rows["notes-naive"]["applies"]
        ratio = rows["strong"]["noise_multiplier"] / rows["naive"]["noise_multiplier"]
        assert document["strong_over_naive"] == ratio
        assert {"epsilon": 1.0, "steps": 1000}.items() <= document["inputs"].items()
        # Printed formulas are no guarantee, however little noise they ask for.
        printed = {name: row for name, row in rows.items() if name.startswith("notes-")}
        assert set(printed) == {"notes-naive", "notes-strong", "notes-moments"}
        assert not any(row["applies"] for row in printed.values())
        # Read with the constant 1, two of them ask for less than composition or PLD prove.
        assert rows["notes-strong"]["noise_multiplier"] < rows["strong"]["noise_multiplier"]
        assert rows["notes-moments"]["noise_multiplier"] < rows["pld"]["noise_multiplier"]

    def test_the_table(self, run):
        assert "notes" not in run("calibrate", *options())[1]
        code, out, err = run("calibrate", *options(), "--all")
        assert (code, err) == (0, "")
        lines = out.splitlines()
        assert lines[0] == (
            "Budget: epsilon 1 at delta 1e-05, poisson batches, add-or-remove-one; released: only "
            "the final model."
        )
        assert lines[1].startswith("Enough: noise multiplier >= 1.414")
        assert "Strong over naive composition: 0.214 of the noise" in out
        assert "1/sqrt(steps) is 0.0316" in out
        assert "notes-naive: as printed, not a guarantee: sigma_naive = 52.98" in out
        assert "linear-loss: noise multiplier 1.2" in out

    @pytest.mark.parametrize(
        "changed",
        [
            {},
            {"sampling": "shuffle", **CONVEX},
            {"sampling": "full", "sample_rate": None, **CONVEX},
            # Batches of 500 of 5000, none of them likely to be too large.
            {"sample_rate": 0.1, "steps": 100, **CONVEX},
            {"max_rows_per_person": 3, "steps": 100},
        ],
    )
    def test_what_is_found_is_never_above_the_budget(self, ask, changed):
        _, rows = ask(**changed)
        checked = [row for row in rows.values() if row["applies"]]
        assert len(checked) >= (2 if "max_rows_per_person" in changed else 5)
        assert "last-iterate" in {row["method"] for row in checked} or "loss" not in changed
        for row in checked:
            noise = row["noise_multiplier"]
            _, again = ask("account", epsilon=None, noise_multiplier=repr(noise), **changed)
            # Law 6: never above, and within 1e-4.
            assert 1 - 1e-4 <= again[row["method"]]["epsilon"] <= 1

    def test_an_infinite_budget_needs_no_noise(self, ask):
        document, rows = ask(epsilon="inf")
        assert document["inputs"]["epsilon"] == math.inf
        assert rows["pld"]["noise_multiplier"] == 0
        assert document["strong_over_naive"] is None

    def test_nothing_looked_at_needs_no_noise(self, ask):
        for changed in ({"steps": 0}, {"sample_rate": 0}):
            _, rows = ask(**changed)
            assert rows["pld"]["noise_multiplier"] == 0


RISKS = {
    "advantage": ("0.05", lambda risk: risk["advantage"], 0.05),
    "detection": ("0.02@0.01", lambda risk: risk["detection"][1]["at_most"], 0.02),
    "reconstruction": ("0.05@0.01", lambda risk: risk["reconstruction"][1]["at_most"], 0.05),
}


class TestRisk:
    @pytest.mark.parametrize("name", RISKS)
    def test_accounted_again_the_risk_is_what_was_asked_for(self, ask, name):
        text, value, most = RISKS[name]
        document, rows = ask(epsilon=None, steps=100, **{name: text})
        assert document["inputs"][name] == text
        assert "epsilon" not in document["inputs"]
        assert document["best"] == "pld"
        noise = repr(rows["pld"]["noise_multiplier"])
        again, _ = ask("account", epsilon=None, steps=100, noise_multiplier=noise)
        assert most * (1 - 1e-4) <= value(again["risk"]) <= most

    def test_the_table_says_what_epsilon_that_is(self, run):
        code, out, _ = run("calibrate", *options(epsilon=None, steps=100, advantage=0.05))
        assert code == 0
        assert "That is epsilon <= 0.69863 at delta 1e-05." in out.splitlines()[1]

    def test_a_risk_needs_no_delta(self, ask):
        told = {"epsilon": None, "steps": 100, "advantage": 0.05}
        _, rows = ask(**told)
        document, same = ask(**told, delta=None)
        assert document["inputs"]["delta"] == 1e-5
        assert same["pld"]["noise_multiplier"] == rows["pld"]["noise_multiplier"]

    def test_the_most_steps_for_a_risk(self, ask):
        how = {"epsilon": None, "noise_multiplier": 1.5, "sample_rate": 0.2}
        document, rows = ask(find="steps", steps=None, advantage=0.3, **how)
        count = rows[document["best"]]["steps"]
        for more, kept in ((0, True), (1, False)):
            how["steps"] = count + more
            assert (ask("account", **how)[0]["risk"]["advantage"] <= 0.3) == kept

    def test_a_convex_loss_gains_here_too(self, ask):
        how = {"sampling": "full", "sample_rate": None, **CONVEX}
        document, rows = ask(epsilon=None, reconstruction="0.05@0.01", **how)
        assert document["best"] == "last-iterate"
        noise = rows["last-iterate"]["noise_multiplier"]
        assert noise < rows["pld"]["noise_multiplier"]
        again, _ = ask("account", epsilon=None, noise_multiplier=repr(noise), **how)
        assert again["risk"]["reconstruction"][1]["at_most"] <= 0.05


class TestMost:
    @pytest.mark.parametrize(
        ("find", "changed", "again"),
        [
            ("steps", {}, lambda count: {"steps": count}),
            (
                "epochs",
                {"sampling": "cyclic", "noise_multiplier": 20},
                lambda count: {"steps": None, "epochs": count},
            ),
            (
                "batch-size",
                {"steps": 300, "sample_rate": None, "n": 5000},
                lambda count: {"steps": 300, "sample_rate": None, "n": 5000, "batch_size": count},
            ),
        ],
    )
    def test_one_more_is_above_the_budget(self, ask, find, changed, again):
        changed = {"noise_multiplier": 1.5, **changed}
        document, rows = ask(**{"find": find, "steps": None, **changed})
        best = rows[document["best"]]
        count = best[find.replace("-", "_")]
        assert isinstance(count, int)
        assert count == max(r[find.replace("-", "_")] for r in rows.values() if r["applies"])
        assert document["inputs"]["noise_multiplier"] == float(changed["noise_multiplier"])
        for more, kept in ((0, True), (1, False)):
            how = {"epsilon": None, **changed, **again(count + more)}
            _, found = ask("account", **how)
            assert (found[document["best"]]["epsilon"] <= 1) == kept

    def test_the_table(self, run):
        code, out, _ = run("calibrate", *options(find="steps", steps=None, noise_multiplier=1.5))
        assert code == 0
        assert "\nThe most: steps = 1," in out
        assert "(privacy loss distributions)" in out

    @pytest.mark.parametrize("sampling", ["poisson", "allocation"])
    @pytest.mark.parametrize("epsilon", [1, 1e-6])
    def test_records_a_batch_are_found_for_epochs_in_words_too(self, run, ask, sampling, epsilon):
        how = {"find": "batch-size", "steps": None, "epochs": 2, "sample_rate": None, "n": 300}
        how |= {"sampling": sampling, "noise_multiplier": 1.5, "epsilon": epsilon}
        document, rows = ask(**how)
        code, out, _ = run("calibrate", *options(**how))
        assert code == 0
        found = rows["pld"]["batch_size"] if document["best"] else None
        assert (f"\nThe most: batch-size = {found} " in out) == (epsilon == 1)

    def test_a_last_iterate_that_converges_ends_the_search(self, ask):
        how = {"sample_rate": 0.1, **CONVEX, "l2": 0.3, "noise_multiplier": 20}
        _, rows = ask(find="epochs", steps=None, **how)
        assert rows["last-iterate"]["epochs"] == 10**6  # 1e7 steps
        assert "no more than this were tried" in rows["last-iterate"]["notes"]

    def test_not_even_one(self, run):
        how = {"find": "steps", "steps": None, "noise_multiplier": 1, "epsilon": 1e-9}
        code, out, _ = run("calibrate", *options(**how, delta=1e-9))
        assert code == 0
        assert "No method meets it here." in out
        assert "pld: Not even 1 meets this budget: it has 1.1" in out


EPOCHS = {"sampling": "allocation", "sample_rate": None, "steps": None}
EPOCHS |= {"steps_per_epoch": 10, "epochs": 2}
MOST = {"find": "steps", "steps": None, "noise_multiplier": 1}


@pytest.mark.parametrize(
    ("changed", "argument"),
    [
        *(({"epsilon": bad}, "epsilon") for bad in (-1, 0, "nan")),
        *(({"delta": bad}, "delta") for bad in (None, 0, 1, "nan")),
        ({"sample_rate": 2}, "sample_rate"),
        *(({"steps": bad}, "steps") for bad in (-1, None)),
        ({"noise_multiplier": 1}, "noise_multiplier"),
        *(({**MOST, "noise_multiplier": bad}, "noise_multiplier") for bad in (None, -1)),
        ({**MOST, "steps": 1000}, "steps"),
        ({**MOST, "find": "epochs", "epochs": 2}, "epochs"),
        ({**MOST, "find": "batch-size", "sample_rate": None}, "n"),
        ({**MOST, "find": "batch-size", "n": 100}, "sample_rate"),
        ({**MOST, "plot": "a.png"}, "plot"),
        *(({"max_rows_per_person": bad}, "max_rows_per_person") for bad in (0, -2, 10**6)),
        # No target, two of them, or one that no noise reaches.
        ({"epsilon": None}, "--epsilon"),
        ({"advantage": 0.05}, "advantage"),
        (
            {"epsilon": None, "detection": "0.02@0.01", "reconstruction": "0.1@0.01"},
            "reconstruction",
        ),
        ({"epsilon": None, "detection": "0.01@0.02"}, "detection"),
        ({"epsilon": None, "reconstruction": "0.05"}, "reconstruction"),
        *(({"epsilon": None, "advantage": bad}, "advantage") for bad in (0, 1)),
        ({"epsilon": None, "reconstruction": "0.1@0.1"}, "reconstruction"),
        *(({**EPOCHS, "steps_per_epoch": bad}, "steps_per_epoch") for bad in (0, -3)),
        ({**EPOCHS, "sample_rate": 0.1}, "sample_rate"),
        ({**EPOCHS, "steps": 20}, "steps"),
        *(({"plot": bad}, "plot") for bad in ("a.gif", "nowhere/a.png")),
    ],
)
def test_what_cannot_be_is_refused_before_any_work(refused, monkeypatch, changed, argument):
    if "plot" in changed:
        monkeypatch.setattr(theorems, "least_noise", lambda *_: pytest.fail("refused too late"))
    assert refused("calibrate", *options(**changed)) == argument


def test_a_plot_is_written(run, tmp_path: Path):
    path = tmp_path / "noise.svg"
    code, out, _ = run("calibrate", *options(steps=30), "--plot", str(path))
    assert code == 0
    assert out.splitlines()[-1].endswith(str(path))
    assert path.read_text().startswith("<?xml")


def test_help_teaches(run):
    code, out, _ = run("calibrate", "--help")
    assert code == 0
    shown = " ".join(out.replace("│", " ").split())
    for words in ("noise", "steps", "epochs", "batch-size", "[default: noise]"):
        assert words in shown
    assert "sordino calibrate --epsilon 1 --delta 1e-5" in shown
