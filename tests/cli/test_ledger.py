"""`sordino ledger` as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sordino.accounting import gaussian
from sordino.accounting.profile import GaussianProfile
from sordino.accounting.zcdp import concentrated
from sordino.privacy import Relation, rounded
from sordino.release.ledger import Charge, Ledger

DELTA = 1e-6


@pytest.fixture
def run(program):
    return lambda *arguments: program("ledger", *arguments)


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "ledger.db")


@pytest.fixture
def ledger(file: str) -> Ledger:
    made = Ledger(file, dataset="patients", epsilon=2, delta=DELTA)
    made.create()
    return made


def normal(mu: float) -> Charge:
    made = GaussianProfile(parameter=mu, relation=Relation.REPLACE_ONE, theorem="a test")
    return Charge(
        made, made.epsilon(DELTA), DELTA, what="a [bold]model", fingerprint="ab", salt="cd"
    )


class TestInit:
    OPTIONS = ("--dataset", "visits", "--epsilon", "4", "--delta", "1e-7")

    def test_a_budget_is_written_once(self, run, file):
        code, out, err = run("init", file, *self.OPTIONS, "--max-rows-per-person", "12")
        assert (code, err) == (0, "")
        assert out.startswith("visits: epsilon = 4 at delta = 1e-07 for all releases together")
        assert "12 records of one person" in out
        assert "--as-you-go" in out
        assert file in out
        assert "ledger.db.seal" in out
        code, out, _ = run("init", file, *self.OPTIONS, "--max-rows-per-person", "12")
        assert code == 0
        assert out.splitlines()[1] == f"It was in {file} already."
        code, out, err = run("init", file, *self.OPTIONS)
        assert (code, out) == (1, "")
        assert "rows_per_person=1 for 'visits', not 12" in err

    def test_every_setting(self, run, file):
        more = ("--relation", "add-remove", "--as-you-go")
        code, out, _ = run("init", file, *self.OPTIONS, *more)
        assert code == 0
        assert "add-or-remove-one, unit: one record; costs may be chosen as you go." in out
        (budget,) = Ledger.datasets(file)
        assert (budget.relation, budget.as_you_go) == (Relation.ADD_OR_REMOVE_ONE, True)


class TestAmend:
    def test_a_mistyped_budget_is_corrected_until_something_is_recorded(self, run, file, ledger):
        code, out, err = run("amend", file, "--dataset", "patients", "--delta", "1e-7")
        assert (code, err) == (0, "")
        was, now = out.splitlines()
        assert was.startswith("It was patients: epsilon = 2 at delta = 1e-06 for all")
        assert now.startswith("It is patients: epsilon = 2 at delta = 1e-07 for all")
        assert "amended; it was patients: epsilon = 2 at delta = 1e-06" in run("show", file)[1]
        (change,) = json.loads(run("show", file, "--json")[1])["changes"]
        assert (change["kind"], change["dataset"]) == ("amended", "patients")
        was, now = run("amend", file, "--dataset", "patients")[1].splitlines()
        assert was.removeprefix("It was ") == now.removeprefix("It is ")
        run("spend", file, "--dataset", "patients", "--mu", "0.1")
        code, out, err = run("amend", file, "--dataset", "patients", "--as-you-go")
        assert (code, out) == (1, "")
        assert "to have recorded nothing under 'patients', and it has 1." in err


class TestHead:
    def test_a_noted_head_tells_an_older_copy_of_both_files(self, run, file, ledger):
        kept = {each: each.read_bytes() for each in Path(file).parent.glob("ledger.db*")}
        early = run("head", file)[1].strip()
        ledger.record(normal(0.1))
        late = run("head", file)[1].strip()
        assert (early[:2], late[:2]) == ("1:", "2:")
        code, out, _ = run("verify", file, "--head", early)
        assert code == 0
        assert out.splitlines() == [
            f"Every row is as it was written and sealed; the head is {late}.",
            "It went on from the noted head.",
        ]
        for each, content in kept.items():
            each.write_bytes(content)
        code, out, _ = run("verify", file)
        assert code == 0
        assert "An older copy of both files would look the same" in out
        code, out, err = run("verify", file, "--head", late)
        assert (code, out) == (1, "")
        assert "the 2 rows that the noted head tells of it, and it holds 1: an older copy" in err
        assert run("verify", file, "--head", "late")[0] == 2

    def test_a_lost_seal_is_made_anew_and_that_is_shown(self, run, file, ledger):
        assert "is in order" in run("reseal", file)[1]
        Path(f"{file}.seal").unlink()
        code, out, err = run("show", file)
        assert (code, out) == (1, "")
        assert "`sordino ledger reseal` takes the ledger as it is" in err
        assert "has a new seal; its history says: taken as it was" in run("reseal", file)[1]
        assert "resealed, taken as it was" in run("show", file)[1]


class TestShow:
    def test_budget_total_rest_and_entries(self, run, file, ledger):
        ledger.record(normal(0.1)).written("/models/a")
        crashed = ledger.record(normal(0.2))
        code, out, err = run("show", file)
        assert (code, err) == (0, "")
        lines = [line.rstrip() for line in out.splitlines()]
        spent = gaussian.epsilon(0.05**0.5, DELTA)
        assert lines[:2] + lines[3:4] == [
            "patients: epsilon = 2 at delta = 1e-06 for all releases together, replace-one, unit: "
            "one record; costs are fixed in advance.",
            f"Spent: epsilon <= {rounded(spent, digits=5)} at delta = 1e-06 (rule: Gaussian DP, "
            "exactly); 2 releases.",
            f"Left: {ledger.status().left}.",
        ]
        assert lines[2].startswith("That is less than the sum of their epsilons")
        assert "a [bold]model" in out
        assert any("The model was written (/models/a)." in line for line in lines)
        (explained,) = [line for line in lines if line.startswith(f"  {crashed.id[:8]}: ")]
        assert "ended, or is still at work" in explained
        assert "the model may have left, so the budget stays spent." in explained

    def test_a_rule_that_needs_costs_fixed_in_advance_says_so(self, run, file, ledger):
        ledger.record(normal(0.1))
        ledger.record(normal(0.1))
        said = "That rule holds if no cost was chosen by looking"
        assert said not in run("show", file)[1]
        run("spend", file, "--dataset", "patients", "--epsilon", "0.1", "--delta", "0")
        assert said in run("show", file)[1]

    def test_json_has_the_same_and_keeps_inside_what_belongs_there(self, run, file, ledger):
        entry = ledger.record(normal(0.1))
        code, out, _ = run("show", file, "--json")
        assert code == 0
        (budget,) = json.loads(out)["budgets"]
        status = ledger.status()
        assert budget["dataset"] == "patients"
        assert budget["spent"]["epsilon"] == status.spent.epsilon
        assert budget["left"]["largest_gaussian"]["mu"] == status.largest_mu
        assert budget["left"]["epsilon"] == 2 - status.spent.epsilon
        (shown,) = budget["entries"]
        assert (shown["id"], shown["status"]) == (entry.id, "recorded")
        assert {"fingerprint", "salt"}.isdisjoint(shown)

    def test_one_dataset_or_all(self, run, file, ledger):
        Ledger(file, dataset="visits", epsilon=1, delta=0).create()
        out = run("show", file)[1]
        assert out.index("patients: ") < out.index("visits: ")
        assert out.count("Nothing was spent yet.") == 2
        assert "no Gaussian release fits" in out
        assert "patients" not in run("show", file, "--dataset", "visits")[1]
        code, _, err = run("show", file, "--dataset", "visit")
        assert code == 1
        assert "It has 'patients', 'visits'" in err


class TestSpend:
    def test_each_kind_is_recorded_as_what_it_is(self, run, file, ledger):
        for cost in (("--mu", "0.1"), ("--rho", "0.001"), ("--epsilon", "0.1", "--delta", "1e-8")):
            code, out, err = run("spend", file, "--dataset", "patients", *cost, "--note", "ages")
            assert (code, err) == (0, "")
            assert out.startswith("Accounted for replace-one, one record: alone it is epsilon <= ")
        normal, zcdp, plain = ledger.status().entries
        assert normal.profile.mu == 0.1
        assert (normal.epsilon, normal.delta) == (gaussian.epsilon(0.1, DELTA), DELTA)
        assert zcdp.epsilon == concentrated(rho=0.001, relation=Relation.REPLACE_ONE).epsilon(DELTA)
        assert (plain.profile.budget, plain.epsilon, plain.delta) == ((0.1, 1e-8), 0.1, 1e-8)
        assert {line.what for line in ledger.status().entries} == {"ages"}
        assert plain.explanation == "Recorded by hand: made elsewhere."

    def test_a_dry_run_says_what_would_be_left_and_records_nothing(self, run, file, ledger):
        cost = ("--dataset", "patients", "--mu", "0.1")
        code, dry, _ = run("spend", file, *cost, "--dry-run")
        assert code == 0
        assert "It fits, and nothing was recorded. The total would be epsilon <= " in dry
        assert ledger.status().entries == ()
        code, wet, _ = run("spend", file, *cost)
        assert dry.splitlines()[2] == f"Then left: {ledger.status().left}."
        assert wet.splitlines()[2] == f"Left: {ledger.status().left}."

    @pytest.mark.parametrize("more", [(), ("--dry-run",)])
    @pytest.mark.parametrize("cost", [("--mu", "5"), ("--epsilon", "inf", "--delta", "0")])
    def test_what_does_not_fit_exits_1(self, run, file, ledger, cost, more):
        code, out, err = run("spend", file, "--dataset", "patients", *cost, *more)
        assert (code, out) == (1, "")
        assert "Nothing was recorded. Left: epsilon 2 of 2 at delta=1e-06" in err
        assert err.count("\n") == 1
        assert ledger.status().entries == ()

    @pytest.mark.parametrize(
        ("more", "sentence"),
        [
            (("--relation", "zero-out"), "Expected relation=zero-out to be replace-one"),
            (("--max-rows-per-person", "2"), "max_rows_per_person=2 to be 1"),
        ],
    )
    def test_what_was_accounted_otherwise_exits_1(self, run, file, ledger, more, sentence):
        code, out, err = run("spend", file, "--dataset", "patients", "--mu", "0.1", *more)
        assert (code, out) == (1, "")
        assert sentence in err

    @pytest.mark.parametrize(
        ("cost", "sentence"),
        [
            ((), "Expected cost=nothing to be --epsilon, --mu or --rho"),
            (("--mu", "1", "--rho", "1"), "Expected cost=mu and rho to be --epsilon, --mu"),
            (("--epsilon", "1"), "Expected delta=None to go with --epsilon"),
            (("--mu", "1", "--delta", "0.1"), "Expected delta=0.1 to go with --epsilon"),
            (("--mu", "-1"), "Expected mu=-1.0 >= 0"),
            (("--rho", "nan"), "Expected rho=nan to be a number, not NaN"),
            (("--epsilon", "1", "--delta", "2"), "Expected delta=2.0 in [0, 1)"),
            (("--mu", "1", "--relation", "replace-two"), "Did you mean replace-one"),
            (("--mu", "1", "--max-rows-per-person", "0"), "Expected rows_per_person=0 >= 1"),
        ],
    )
    def test_usage_exits_2(self, run, file, ledger, cost, sentence):
        code, out, err = run("spend", file, "--dataset", "patients", *cost)
        assert (code, out) == (2, "")
        assert sentence in err
        assert err.count("\n") == 1


@pytest.mark.parametrize("command", [("show",), ("spend", "--dataset", "a", "--mu", "1")])
def test_a_file_that_is_no_ledger_exits_1(run, tmp_path, command):
    text = tmp_path / "notes.txt"
    text.write_text("no ledger\n" * 100)
    for path in (tmp_path, text, tmp_path / "missing.db"):
        code, out, err = run(command[0], str(path), *command[1:])
        assert (code, out) == (1, "")
        assert err.startswith(f"Expected ledger={path} to be ")
        assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ((), "A release is recorded before the model leaves, and nothing is ever given back."),
        (("init",), "sordino ledger init ledger.db --dataset patients-2026 --epsilon 2 --delta"),
        (("show",), "Gaussian releases compose better than their epsilons add up"),
        (("spend",), "sordino ledger spend ledger.db --dataset patients-2026 --mu 0.3 --dry-run"),
    ],
)
def test_help_teaches(run, command, words):
    code, out, _ = run(*command, "--help")
    assert code == 0
    assert words in " ".join(out.replace("│", " ").split())


def test_no_heavy_package_is_loaded(file, ledger):
    program = (
        "import sys; sys.argv = ['sordino', 'ledger', 'show', sys.argv[1]]\n"
        "from sordino.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = ('torch', 'numba', 'pandas', 'sklearn', 'dp_accounting', 'matplotlib')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, file],
        **{"capture_output": True, "text": True, "timeout": 60, "check": True},
    )
    assert done.stdout.splitlines()[-1] == "[]"
