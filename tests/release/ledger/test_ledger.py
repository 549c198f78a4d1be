"""The ledger in one process: what it adds up, what it refuses, and what a damaged file says."""

from __future__ import annotations

import math
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from sordino.accounting import gaussian
from sordino.accounting.compose import compose
from sordino.accounting.profile import ApproximateProfile, GaussianProfile, Profile
from sordino.accounting.zcdp import concentrated
from sordino.errors import InvalidArgument
from sordino.privacy import Relation
from sordino.release import ReleaseRefused
from sordino.release.ledger import BudgetExceeded, Charge, Ledger, LedgerError
from sordino.release.ledger.budget import Budget
from sordino.release.ledger.ledger import FingerprintWarning

DELTA = 1e-6
REPLACE = Relation.REPLACE_ONE


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(path: Path) -> Ledger:
    """A ledger with a budget and nothing spent."""
    made = Ledger(path, dataset="patients", epsilon=2, delta=DELTA)
    made.create()
    return made


def normal(mu: float, relation: Relation = REPLACE) -> Profile:
    return GaussianProfile(parameter=mu, relation=relation, theorem="a Gaussian release")


def promised(epsilon: float, delta: float = 0.0) -> Profile:
    return ApproximateProfile(budget=(epsilon, delta), relation=REPLACE, theorem="a promise")


def charge(profile: Profile | None = None, delta: float | None = None, **more: object) -> Charge:
    profile = normal(0.1) if profile is None else profile
    if isinstance(profile, ApproximateProfile):
        return Charge(profile, *profile.budget, **more)  # type: ignore[arg-type]
    delta = DELTA if delta is None else delta
    return Charge(profile, profile.epsilon(delta), delta, **more)  # type: ignore[arg-type]


class TestTotals:
    def test_ten_gaussian_releases_are_one_of_root_ten(self, ledger):
        for _ in range(10):
            entry = ledger.record(charge(normal(0.1)))
        spent = ledger.status().spent
        # sqrt(sum of squares) and sqrt(10) mu differ by rounding only.
        assert spent.epsilon == pytest.approx(gaussian.epsilon(0.1 * 10**0.5, DELTA), rel=1e-13)
        assert "Gaussian DP" in spent.rule
        assert entry.total == spent

    def test_mixed_kinds_compose_by_what_they_share_and_the_rule_is_named(self, ledger):
        made = [normal(0.1), promised(0.2), promised(0.1)]
        for profile in made:
            ledger.record(charge(profile))
        spent = ledger.status().spent
        assert "privacy loss distributions" in spent.rule
        assert spent.epsilon == compose(made).epsilon(DELTA)
        ledger.record(charge(concentrated(rho=0.001, relation=REPLACE)))
        assert "privacy loss distributions" not in ledger.status().spent.rule

    def test_never_more_than_the_sum_of_promises(self, path):
        ledger = Ledger(path, dataset="a", epsilon=0.3, delta=0)
        for _ in range(3):  # 0.1 + 0.1 + 0.1 is more than 0.3 in float64
            ledger.record(charge(promised(0.1)))
        assert ledger.status().spent.epsilon <= 0.3 * (1 + 1e-15)
        with pytest.raises(BudgetExceeded, match="delta=0"):
            ledger.record(charge(promised(1e-6)))

    def test_check_and_record_agree_and_check_changes_nothing(self, ledger, path):
        ledger.record(charge(normal(0.2)))
        before = path.read_bytes()
        assert ledger.check(charge(normal(0.2))) == ledger.status().after(charge(normal(0.2))).spent
        assert path.read_bytes() == before
        assert ledger.record(charge(normal(0.2))).total == ledger.status().spent

    def test_the_largest_gaussian_release_that_is_named_fits_and_a_larger_one_does_not(
        self, ledger
    ):
        ledger.record(charge(normal(0.2)))
        mu = ledger.status().largest_mu
        with pytest.raises(BudgetExceeded):
            ledger.check(charge(normal(mu * 1.001)))
        ledger.record(charge(normal(mu)))
        assert ledger.status().epsilon_left == pytest.approx(0, abs=1e-6)

    def test_datasets_do_not_share_a_budget(self, ledger, path):
        ledger.record(charge())
        other = Ledger(path, dataset="visits", epsilon=1, delta=1e-7, relation="zero-out")
        with other:
            assert other.status().spent.epsilon == 0
        assert Ledger.datasets(path) == [
            Budget("patients", 2.0, DELTA, REPLACE, 1, False),
            Budget("visits", 1.0, 1e-7, Relation.ZERO_OUT, 1, False),
        ]
        assert len(ledger.status().entries) == 1

    def test_as_you_go_uses_one_rule(self, path):
        ledger = Ledger(path, dataset="a", epsilon=1, delta=DELTA, as_you_go=True)
        ledger.record(charge(normal(0.1)))
        assert ledger.status().spent.as_you_go
        with pytest.raises(BudgetExceeded, match="does not cover"):
            ledger.record(charge(promised(0.1)))


class TestRefusals:
    def test_too_much_says_what_is_left_and_changes_nothing(self, ledger, path):
        ledger.record(charge(normal(0.2)))
        before = ledger.status()
        asked = charge(normal(1.0))
        for attempt in (ledger.check, ledger.record):
            with pytest.raises(BudgetExceeded) as refused:
                attempt(asked)
            error = refused.value
            assert isinstance(error, ReleaseRefused)
            assert (error.dataset, error.charge, error.spent) == ("patients", asked, before.spent)
            assert error.would_be.epsilon == pytest.approx(
                gaussian.epsilon(math.hypot(0.2, 1.0), DELTA), rel=1e-12
            )
            assert error.left == before.left
            assert before.left in str(error)
        assert before.left.startswith("epsilon 1.165 of 2 at delta=1e-06; ")
        assert ledger.status() == before

    def test_it_comes_through_a_worker_whole(self, ledger):
        with pytest.raises(BudgetExceeded) as refused:
            ledger.record(charge(normal(9.0)))
        copy = pickle.loads(pickle.dumps(refused.value))  # noqa: S301, as process pools do
        assert (str(copy), copy.left, copy.dataset) == (
            str(refused.value),
            refused.value.left,
            "patients",
        )

    @pytest.mark.parametrize(
        "asked",
        [charge(normal(math.inf)), charge(promised(math.inf)), charge(normal(0.1), delta=0.0)],
    )
    def test_an_infinite_cost_fits_no_budget(self, path, asked):
        ledger = Ledger(path, dataset="a", epsilon=1e9, delta=0.5)
        for attempt in (ledger.check, ledger.record):
            with pytest.raises(BudgetExceeded, match="not inf"):
                attempt(asked)
        assert ledger.status().entries == ()

    def test_another_relation_is_refused(self, ledger):
        for attempt in (ledger.check, ledger.record):
            with pytest.raises(LedgerError, match="relation=add-or-remove-one to be replace-one"):
                attempt(charge(normal(0.1, Relation.ADD_OR_REMOVE_ONE)))
        assert ledger.status().entries == ()

    def test_another_unit_is_refused(self, ledger, path):
        with pytest.raises(LedgerError, match="max_rows_per_person=3 to be 1"):
            ledger.record(charge(rows_per_person=3))
        grouped = Ledger(path, dataset="visits", epsilon=1, delta=DELTA, max_rows_per_person=3)
        with pytest.raises(LedgerError, match="max_rows_per_person=1 to be 3"):
            grouped.record(charge())
        grouped.record(charge(rows_per_person=3))

    def test_a_promise_that_is_not_proved_is_no_charge(self):
        with pytest.raises(InvalidArgument, match="to be proved at delta"):
            Charge(normal(1.0), 0.1, DELTA)

    @pytest.mark.parametrize(
        ("changed", "difference"),
        [
            ({"epsilon": 3}, "epsilon=3.0 for 'patients', not 2.0"),
            ({"delta": 1e-5}, "delta=1e-05 for 'patients', not 1e-06"),
            ({"relation": "zero-out"}, "relation=zero-out for 'patients', not replace-one"),
            ({"max_rows_per_person": 2}, "rows_per_person=2 for 'patients', not 1"),
            ({"as_you_go": True}, "as_you_go=True for 'patients', not False"),
        ],
    )
    def test_a_budget_is_fixed_once(self, ledger, path, changed, difference):
        numbers = {"epsilon": 2, "delta": DELTA}
        other = Ledger(path, dataset="patients", **{**numbers, **changed})
        for use in (other.status, other.create, other.__enter__, lambda: other.record(charge())):
            with pytest.raises(LedgerError) as refused:
                use()
            assert difference in str(refused.value)
        assert not ledger.create()
        assert ledger.status().entries == ()

    def test_settings_left_out_are_the_files(self, path):
        settings = {"relation": "zero-out", "max_rows_per_person": 4, "as_you_go": True}
        Ledger(path, dataset="a", epsilon=1, delta=DELTA, **settings).create()
        assert Ledger(path, dataset="a").status().budget.rows_per_person == 4
        Ledger(path, dataset="a", relation="zero-out").status()
        with pytest.raises(LedgerError, match="relation=add-or-remove-one for 'a', not zero"):
            Ledger(path, dataset="a", relation="add-or-remove-one").status()

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            *(("dataset", value) for value in ("", " a", "a\x1b[2J", 7)),
            *(("epsilon", value) for value in (0, math.inf, math.nan, None)),
            *(("delta", value) for value in (None, 1)),
            *(("relation", "replace"), ("max_rows_per_person", 0), ("as_you_go", "no")),
            *(("wait", -1), ("path", ":memory:"), ("path", ""), ("path", 3), ("path", "a\0b")),
        ],
    )
    def test_arguments_are_checked_before_any_file_is_touched(self, path, name, value):
        arguments = {"path": path, "dataset": "a", "epsilon": 1, "delta": DELTA, name: value}
        where = arguments.pop("path")
        with pytest.raises(InvalidArgument) as refused:
            Ledger(where, **arguments)
        assert refused.value.argument == name
        assert not path.exists()

    @pytest.mark.parametrize(
        "wrong",
        [{"profile": 1.0}, {"fingerprint": "no hex"}, {"salt": "XY"}, {"rows_per_person": 0}],
    )
    def test_charges_are_checked(self, wrong):
        values = {"profile": normal(0.1), "epsilon": 1.0, "delta": DELTA, **wrong}
        with pytest.raises(InvalidArgument):
            Charge(**values)


class TestEntries:
    def test_what_is_kept(self, ledger):
        entry = ledger.record(charge(what="a model\x1b of\npatients", salt="abcd"))
        (line,) = ledger.status().entries
        assert (line.id, line.what, line.status) == (entry.id, "a model  of patients", "recorded")
        assert (line.pid, line.salt, line.profile) == (os.getpid(), "abcd", normal(0.1))
        assert "abcd" not in repr(line)
        assert line.recorded.endswith("Z")
        assert "the model may have left, so the budget stays spent" in line.explanation

    def test_a_status_rises_and_spends_nothing_back(self, ledger):
        entry = ledger.record(charge())
        spent = ledger.status().spent

        def now() -> tuple[str, str]:
            (line,) = ledger.status().entries
            assert ledger.status().spent == spent
            return line.status, line.place

        entry.failed("the training diverged")
        assert now() == ("failed", "the training diverged")
        assert "budget stays spent" in ledger.status().entries[0].explanation
        entry.returned()  # it did leave, after all
        assert now() == ("returned", "")
        entry.failed("too late")
        assert now() == ("returned", "")
        entry.written(Path("/models/a"))
        entry.written("/models/b")
        entry.written("/models/a")
        entry.returned()
        assert now() == ("written", "/models/a; /models/b")
        assert ledger.status().entries[0].explanation == (
            "The model was written (/models/a; /models/b)."
        )

    def test_paths_that_are_no_text(self, ledger):
        entry = ledger.record(charge())
        entry.written(os.fsdecode(b"/models/\xff"))
        assert ledger.status().entries[0].place == "/models/\\udcff"


class TestFingerprints:
    def test_same_data_under_another_name_are_noticed_and_recorded(self, ledger, path):
        ledger.record(charge(fingerprint="ab12"))
        other = Ledger(path, dataset="copy", epsilon=1, delta=DELTA)
        with pytest.warns(FingerprintWarning, match="'copy' were also released from as 'patients'"):
            other.record(charge(fingerprint="ab12"))
        assert len(other.status().entries) == 1

    def test_other_data_under_the_same_name_are_noticed_once(self, ledger):
        ledger.record(charge(fingerprint="ab12"))
        ledger.record(charge(fingerprint="ab12"))
        ledger.record(charge())
        with pytest.warns(FingerprintWarning, match="not those of its earlier releases") as caught:
            ledger.record(charge(fingerprint="cd34"))
        assert caught[0].filename == __file__
        ledger.record(charge(fingerprint="cd34"))
        ledger.record(charge(fingerprint="ab12"))
        assert len(ledger.status().entries) == 6

    def test_a_warning_that_is_an_error_comes_after_the_record(self, ledger):
        ledger.record(charge(fingerprint="ab12"))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(FingerprintWarning):
                ledger.record(charge(fingerprint="cd34"))
        assert len(ledger.status().entries) == 2

    def test_they_are_kept_keyed(self, ledger, path):
        print_ = "5f" * 32
        ledger.record(charge(fingerprint=print_))
        assert print_.encode() not in path.read_bytes()
        twin = Ledger(path.with_name("twin.db"), dataset="patients", epsilon=2, delta=DELTA)
        twin.record(charge(fingerprint=print_))
        kept = [each.status().entries[0].fingerprint for each in (ledger, twin)]
        assert kept[0] != kept[1]


def test_the_module_loads_nothing_heavy():
    program = (
        "import sys, sordino.release.ledger\n"
        "heavy = ('torch', 'numba', 'pandas', 'sklearn', 'dp_accounting', 'matplotlib')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"
