"""`sordino account` as a user runs it."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from sordino.accounting.gaussian import epsilon as gaussian_epsilon
from sordino.cli import tables
from sordino.privacy import rounded
from sordino.proofs import theorems

EXAMPLE = (
    *("--noise-multiplier", "1.1", "--sample-rate", "0.01", "--steps", "10000"),
    *("--delta", "1e-5", "--sampling", "poisson"),
)
CONVEX = (
    *("--noise-multiplier", "40", "--sampling", "full", "--n", "10000", "--steps", "2000"),
    *("--delta", "1e-6", "--loss", "logistic", "--l2", "0.01", "--learning-rate", "2"),
)
SHORT = {"--noise-multiplier": "2", "--sample-rate": "0.1", "--steps": "50"}
SHORT |= {"--delta": "1e-5", "--sampling": "poisson"}
EPOCHS = {"sampling": "allocation", "sample_rate": None, "steps": None}
EPOCHS |= {"steps_per_epoch": 10, "epochs": 2}
ROW = {
    *("method", "applies", "epsilon", "delta", "kind", "theorem"),
    *("relation", "released", "reason", "notes", "milliseconds", "bracket"),
}
NAMES = [method.name for method in theorems.STEPS]


@pytest.fixture
def run(program):
    return lambda *arguments: program("account", *arguments)


@pytest.fixture
def ask(run):
    """The JSON for the short run with some options changed (None: left away)."""

    def ask(**changed: object):
        code, out, err = run(*options(**changed), "--json")
        assert (code, err) == (0, "")
        document = json.loads(out)
        return document, {row["method"]: row for row in document["rows"]}

    return ask


def options(**changed: object) -> list[str]:
    named = {f"--{name.replace('_', '-')}": value for name, value in changed.items()}
    both = {**SHORT, **named}
    flags = [name for name, value in both.items() if value is True]
    valued = {n: v for n, v in both.items() if v is not None and not isinstance(v, bool)}
    return flags + [part for name, value in valued.items() for part in (name, str(value))]


class TestTable:
    def test_the_issues_example(self, run):
        code, out, err = run(*EXAMPLE)
        assert (code, err) == (0, "")
        first, second = out.splitlines()[:2]
        assert first == (
            "10,000 steps, poisson batches at rate 0.01, noise 1.1 x clip, delta 1e-05, "
            "add-or-remove-one; released: only the final model."
        )
        assert second.startswith("Proved: epsilon <= 5.19")
        lines = [line.split() for line in out.splitlines() if line.strip()]
        proved, others = out.split("Not proved here:")
        marked = [line for line in proved.splitlines() if line.lstrip().startswith("> ")]
        assert len(marked) == 1
        assert "pld" in marked[0]
        for name in ("naive", "strong-dwork", "strong", "rdp", "pld"):
            assert sum(name in line[:2] for line in lines) == 1
        for name in ("last-iterate", "linear-loss"):
            assert f"\n  {name}: " in others
        assert "notes-" not in out  # lecture notes are quoted for whoever asks
        assert "\n  notes-naive: as printed, not a guarantee" in run(*EXAMPLE, "--all")[1]
        assert "add-or-remove-one" in marked[0]
        assert "all iterates" in marked[0]
        assert "Zhu, Dong & Wang 2022" in marked[0]

    def test_a_convex_loss_gains_from_the_last_iterate(self, run):
        code, out, _ = run(*CONVEX)
        assert code == 0
        (marked,) = (line for line in out.splitlines() if line.lstrip().startswith("> "))
        assert "last-iterate" in marked
        assert "final model" in marked
        assert "Bok, Su & Altschuler 2024" in marked
        assert "hidden state pays: composition of all steps gives mu = 1.11803" in out

    def test_numbers_are_rounded_up(self, run):
        _, out, _ = run(*CONVEX, "--json")
        rows = {row["method"]: row["epsilon"] for row in json.loads(out)["rows"]}
        shown = float(run(*CONVEX)[1].splitlines()[1].split()[3])
        assert rows["last-iterate"] <= shown <= rows["last-iterate"] * (1 + 1e-4)

    @pytest.mark.parametrize("columns", ["80", "100"])
    def test_a_narrow_terminal_lists_the_theorems_below(self, columns):
        # A pseudo-terminal, as `console.is_terminal` asks for one.
        program = (
            "import sys; sys.argv = ['sordino', 'account', *sys.argv[1:]]\n"
            "from sordino.cli.main import main; main()"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, *EXAMPLE],
            **{"capture_output": True, "text": True, "timeout": 60, "check": True},
            env={"FORCE_COLOR": "1", "COLUMNS": columns, "TERM": "dumb"},
        )
        assert "rdp: moments accountant (Renyi DP)" in done.stdout
        table = done.stdout.split("Not proved here")[0]
        assert "…" not in table


class TestBracket:
    def test_both_ends_in_json(self, run):
        _, out, _ = run(*EXAMPLE, "--json")
        rows = {row["method"]: row for row in json.loads(out)["rows"]}
        lower, upper = rows["pld"]["bracket"]
        assert 5.19 < lower < upper <= rows["pld"]["epsilon"] < lower * (1 + 1e-4)
        assert rows["rdp"]["bracket"] == [0.0, rows["rdp"]["epsilon"]]  # from above only
        assert rows["linear-loss"]["bracket"] is None  # not proved

    def test_the_table_has_the_digits_that_both_share(self, run):
        _, out, _ = run(*EXAMPLE, "--json")
        (row,) = (row for row in json.loads(out)["rows"] if row["method"] == "pld")
        shown = run(*EXAMPLE)[1].splitlines()[1].split()[3]
        ends = [rounded(end, digits=len(shown) - 1) for end in row["bracket"]]
        assert ends == [shown, shown]
        more = [rounded(end, digits=len(shown)) for end in row["bracket"]]
        assert more[0] != more[1] or len(shown) == 6

    @pytest.mark.parametrize(
        ("bracket", "shown"),
        [
            ((1.23451, 1.23459), "1.2346"),
            ((1.23459, 1.23461), "1.235"),
            ((1.2, 1.9), "1.9"),
            ((0.0, 1.234567), "1.2346"),
            ((1.5, 1.5), "1.5"),
            (None, "1.2346"),
        ],
    )
    def test_digits(self, bracket, shown):
        value = 1.5 if bracket == (1.5, 1.5) else 1.234567
        finding = SimpleNamespace(value=value, bracket=lambda: bracket)
        assert tables.epsilon(finding) == shown


class TestJson:
    def test_its_shape(self, run):
        code, out, err = run(*EXAMPLE, "--json")
        assert (code, err) == (0, "")
        document = json.loads(out)
        assert list(document) == ["inputs", "rows", "best", "assumes", "risk"]
        assert [row["method"] for row in document["rows"]] == NAMES
        assert all(set(row) == ROW for row in document["rows"])
        assert document["best"] == "pld"
        given = {"noise_multiplier": 1.1, "sample_rate": 0.01, "steps": 10000, "delta": 1e-5}
        given |= {"sampling": "poisson", "relation": "add-or-remove-one", "release": "final"}
        assert given.items() <= document["inputs"].items()
        rows = {row["method"]: row for row in document["rows"]}
        # dp-accounting 0.6 with its grid at 1e-4 gives 5.19262; ours is 2e-5 wide.
        assert rows["pld"]["epsilon"] == pytest.approx(5.19262, abs=1e-4)
        assert rows["pld"]["applies"] is True
        assert rows["pld"]["reason"] is None
        assert rows["linear-loss"]["applies"] is False
        assert "not a guarantee" in rows["linear-loss"]["reason"]
        assert rows["last-iterate"]["epsilon"] is None
        assert all(row["milliseconds"] >= 0 for row in document["rows"])

    def test_what_an_attacker_can_do(self, ask, run):
        document, _ = ask()
        risk = document["risk"]
        assert risk["guess"] == 0.5 + risk["advantage"] / 2
        assert risk["detection"][1]["false_alarms"] == 0.01 < risk["detection"][1]["at_most"]
        assert 0 < risk["closest_gaussian"]["error"] < 0.02 < risk["closest_gaussian"]["mu"]
        code, out, _ = run(*options())
        assert code == 0
        said = out[out.index("At most, for an attacker") :]
        shown = float(said.split("in the data: ")[1].split(" %")[0]) / 100
        assert risk["guess"] <= shown <= risk["guess"] + 1e-3  # rounded up
        assert "At most" not in run(*options(noise_multiplier=0))[1]

    def test_infinity_is_a_number_every_reader_takes(self, ask, run):
        _, out, _ = run(*options(noise_multiplier=0), "--json")
        assert "Infinity" not in out
        document, rows = ask(noise_multiplier=0)
        assert rows["pld"]["epsilon"] == math.inf
        assert rows["naive"]["epsilon"] == math.inf
        assert document["best"] == "pld"


class TestPersons:
    def test_all_records_of_a_person_together(self, ask, run):
        how = {"noise_multiplier": 1, "sample_rate": 0.01, "steps": 1000}
        document, rows = ask(max_rows_per_person=4, **how)
        # Golden section 12; the group lemma says 11.80.
        assert rows["pld"]["epsilon"] == pytest.approx(8.899188, rel=1e-3)
        assert rows["pld"]["notes"] == ["for 4 records of one person"]
        assert document["inputs"]["max_rows_per_person"] == 4
        assert any("nobody has more than 4 rows" in each for each in document["assumes"])
        _, alone = ask(**how)
        _, one = ask(max_rows_per_person=1, **how)
        assert one["pld"]["epsilon"] == alone["pld"]["epsilon"] < rows["pld"]["epsilon"]
        # The naive and strong rules know of one delta only, which grows.
        assert not rows["strong"]["applies"]

    def test_where_only_the_group_lemma_holds_it_says_so(self, ask):
        how = {"sampling": "fixed-size", "noise_multiplier": 6, "steps": 20}
        _, rows = ask(max_rows_per_person=2, **how)
        for name in ("rdp", "pld"):
            assert any("group lemma" in note for note in rows[name]["notes"])


class TestInputs:
    def test_batch_size_and_records_instead_of_the_rate(self, ask):
        plain, by_rate = ask()
        _, by_size = ask(sample_rate=None, batch_size=100, n=1000)
        assert by_size["pld"]["epsilon"] == by_rate["pld"]["epsilon"]
        consistent, _ = ask(batch_size=100, n=1000)
        assert consistent["inputs"]["sample_rate"] == plain["inputs"]["sample_rate"] == 0.1

    @pytest.mark.parametrize(
        ("epochs", "steps"), [("5", 50), ("0.5", 5), ("0.51", 6), ("0", 0), ("4.9", 49)]
    )
    def test_epochs_instead_of_steps(self, ask, epochs, steps):
        document, rows = ask(steps=None, epochs=epochs)
        assert document["inputs"]["steps"] == steps
        assert rows["pld"]["epsilon"] == ask(steps=steps)[1]["pld"]["epsilon"]

    def test_an_epoch_of_ragged_batches_is_one_pass(self, ask):
        # 1/0.3 batches: three a pass, or four, the last a small one; each record is met once.
        how = {"sampling": "cyclic", "sample_rate": 0.3, "steps": None, "epochs": 1}
        for keep_last, steps in ((False, 3), (True, 4)):
            document, rows = ask(**how, keep_last=keep_last)
            assert document["inputs"]["steps"] == steps
            assert rows["pld"]["epsilon"] == pytest.approx(gaussian_epsilon(2 / 2.0, 1e-5))

    def test_a_last_batch_that_may_be_dropped_makes_passes_shorter(self, ask):
        # 100 steps over 1000 records in batches of 600: one step a pass if the last is dropped.
        how = {"sampling": "shuffle", "sample_rate": None, "batch_size": 600, "n": 1000}
        for more, met in (({}, 100), ({"keep_last": True}, 50)):
            _, rows = ask(**how, **more, steps=100)
            expected = gaussian_epsilon(2 / 2.0 * math.sqrt(met), 1e-5)
            assert rows["pld"]["epsilon"] == pytest.approx(expected)
            # Naming the loss never makes composition look better.
            for loss in ({"loss": "mlp"}, {"loss": "logistic", "learning_rate": 0.5}):
                assert (
                    ask(**how, **more, steps=100, **loss)[1]["pld"]["epsilon"]
                    == (rows["pld"]["epsilon"])
                )

    def test_relations_by_default(self, ask):
        for sampling, relation in (
            ("poisson", "add-or-remove-one"),
            ("fixed-size", "replace-one"),
            ("shuffle", "replace-one"),
            ("cyclic", "replace-one"),
        ):
            document, rows = ask(sampling=sampling)
            assert document["inputs"]["relation"] == relation
            assert {row["relation"] for row in rows.values()} == {relation}
        assert ask(sampling="full", sample_rate=None)[0]["inputs"]["relation"] == "zero-out"
        assert ask(relation="zero-out")[1]["pld"]["relation"] == "zero-out"

    def test_every_iterate_released(self, run):
        code, out, _ = run(*CONVEX, "--release", "all")
        assert code == 0
        assert "released: all iterates." in out
        assert "last-iterate: Every iterate is released" in out

    def test_no_steps_or_no_records_is_epsilon_zero(self, ask, run):
        for changed in ({"steps": 0}, {"sample_rate": 0}):
            document, rows = ask(**changed)
            assert rows["pld"]["epsilon"] == 0
            for more in ({}, {"loss": "logistic", "n": 1000, "learning_rate": 1}):
                document, rows = ask(**changed, **more)
                values = [row["epsilon"] for row in rows.values() if row["applies"]]
                assert values == [0] * len(values)
                assert document["best"]
        assert "Proved: epsilon <= 0 " in run(*options(steps=0))[1]
        assert "Nothing is proved: epsilon is infinite." in run(*options(noise_multiplier=0))[1]

    def test_very_many_steps(self, ask):
        _, rows = ask(steps=10**7, sample_rate=0.001)
        # Many weak steps are Gaussian: Dong, Roth & Su 2022, Corollary 5.4.
        mu = 0.001 * math.sqrt(10**7 * math.expm1(1 / 2**2))
        assert rows["pld"]["epsilon"] == pytest.approx(gaussian_epsilon(mu, 1e-5), rel=2e-3)
        how = {"sampling": "shuffle", "loss": "logistic", "l2": 0.01, "learning_rate": 1, "n": 1000}
        _, rows = ask(steps=2 * 10**6, **how)
        assert rows["last-iterate"]["epsilon"] < 0.1 * rows["pld"]["epsilon"]

    def test_delta_zero(self, ask):
        _, rows = ask(delta=0)
        assert rows["pld"]["epsilon"] == math.inf
        assert "delta = 0" in rows["last-iterate"]["reason"] or not rows["last-iterate"]["applies"]


class TestLosses:
    def test_a_network_is_refused_with_its_citation(self, ask):
        for loss in ("mlp", "cnn"):
            document, rows = ask(loss=loss)
            assert "Annamalai 2024" in rows["last-iterate"]["reason"]
            assert document["best"] == "pld"

    def test_a_linear_loss_has_its_exact_law(self, ask):
        document, rows = ask(loss="linear")
        assert rows["linear-loss"]["applies"]
        assert document["best"] == "linear-loss"
        assert rows["linear-loss"]["epsilon"] < rows["pld"]["epsilon"]
        # Projected iterates are no sums: then the exact law is a heuristic again.
        _, projected = ask(loss="linear", radius=1)
        assert not projected["linear-loss"]["applies"]

    def test_least_squares_with_a_clip(self, ask):
        # 500 records a batch: none is likely to be too large for the learning rate.
        how = {"n": 5000, "learning_rate": 0.5, "l2": 0.2, "noise_multiplier": 5, "steps": 300}
        _, rows = ask(loss="least-squares", **how)
        assert rows["last-iterate"]["applies"]
        assert rows["last-iterate"]["epsilon"] < 0.8 * rows["pld"]["epsilon"]

    def test_what_is_missing_is_named(self, ask):
        reason = ask(sampling="full", sample_rate=None, loss="logistic")[1]["last-iterate"][
            "reason"
        ]
        assert "--learning-rate and --n" in reason
        assert "--loss logistic" in ask()[1]["last-iterate"]["reason"]

    def test_records_and_a_rate_make_a_batch(self, ask):
        how = {"loss": "logistic", "learning_rate": 1, "l2": 0.1, "n": 2000}
        _, by_rate = ask(**how)
        _, by_size = ask(**how, sample_rate=None, batch_size=200)
        assert by_rate["last-iterate"]["epsilon"] == by_size["last-iterate"]["epsilon"]

    def test_a_clip_above_the_gradients_counts_in_the_losss_favour(self, ask):
        # Rows of norm 0.5 have logistic gradients of at most 0.5: a clip of 1 halves nothing.
        how = {"loss": "logistic", "learning_rate": 1, "n": 1000}
        _, small = ask(**how, data_norm=0.5)
        _, doubled = ask(noise_multiplier=4)
        # The norm bound's slack of 1e-6 is the difference.
        assert small["pld"]["epsilon"] == pytest.approx(doubled["pld"]["epsilon"], rel=1e-5)

    def test_shuffled_batches_cannot_hide_how_many_there_are(self, ask, run):
        how = {"sampling": "shuffle", "relation": "add-or-remove-one"}
        document, rows = ask(**how, loss="logistic", learning_rate=1, n=1000)
        assert document["best"] is None
        for name in ("naive", "strong", "rdp", "pld", "last-iterate"):
            assert "zero-out" in rows[name]["reason"]
        assert "No method proves anything here." in run(*options(**how))[1]


@pytest.mark.parametrize(
    ("changed", "argument"),
    [
        *(({"noise_multiplier": bad}, "noise_multiplier") for bad in (-1, "nan", "inf")),
        *(({"sample_rate": bad}, "sample_rate") for bad in (1.5, -0.1, "nan", None)),
        *(({"delta": bad}, "delta") for bad in (1, -0.1, "nan")),
        *(({"steps": bad}, "steps") for bad in (-1, None)),
        ({"epochs": 2}, "steps"),
        *(({"steps": None, "epochs": bad}, "epochs") for bad in (-1, "nan", "inf")),
        ({"steps": None, "epochs": 2, "sample_rate": 0}, "sample_rate"),
        ({"sample_rate": None, "batch_size": 11, "n": 10}, "batch_size"),
        ({"batch_size": 0}, "batch_size"),
        ({"n": 0}, "n"),
        ({"sample_rate": None, "batch_size": 10}, "sample_rate"),
        ({"batch_size": 10, "n": 1000}, "sample_rate"),
        ({"sampling": "full"}, "sample_rate"),
        ({"sampling": "poison"}, "sampling"),
        ({"relation": "replace-two"}, "relation"),
        ({"l2": -1}, "l2"),
        *(({"learning_rate": bad}, "learning_rate") for bad in (0, "nan")),
        ({"max_grad_norm": 0}, "max_grad_norm"),
        ({"data_norm": -1}, "data_norm"),
        ({"radius": 0}, "radius"),
        ({"loss": "linear", "l2": 0.1}, "l2"),
        *(({"plot": bad}, "plot") for bad in ("epsilon.txt", "nowhere/epsilon.png")),
        ({"plot": "epsilon.png", "steps": 0}, "steps"),
        *(({**EPOCHS, "steps_per_epoch": bad}, "steps_per_epoch") for bad in (0, -3)),
        ({"steps_per_epoch": 10}, "steps_per_epoch"),
        # Said twice, or not at all.
        ({**EPOCHS, "sample_rate": 0.1}, "sample_rate"),
        ({**EPOCHS, "batch_size": 5, "n": 50}, "batch_size"),
        ({**EPOCHS, "steps_per_epoch": None}, "sample_rate"),
        ({**EPOCHS, "steps": 20}, "steps"),
        *(({"max_rows_per_person": bad}, "max_rows_per_person") for bad in (0, -2, 10**6)),
    ],
)
def test_what_cannot_be_is_refused_before_any_work(refused, monkeypatch, changed, argument):
    monkeypatch.setattr("sordino.proofs.theorems.STEPS", ())
    if "plot" in changed:
        monkeypatch.setattr(theorems, "account", lambda *_: pytest.fail("refused too late"))
    assert refused("account", *options(**changed)) == argument


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"sampling": None}, "Missing option '--sampling'"),
        ({"delta": None}, "Missing option '--delta'"),
        ({"steps": "many"}, "Invalid value for '--steps'"),
        ({**EPOCHS, "steps_per_epoch": 2.5}, "Invalid value for '--steps-per-epoch'"),
        ({"max_rows_per_person": 1.5}, "Invalid value for '--max-rows-per-person'"),
        ({"loss": "hinge"}, "'hinge' is not one of"),
    ],
)
def test_usage_errors_exit_2(run, changed, complaint):
    code, out, err = run(*options(**changed))
    assert (code, out) == (2, "")
    assert complaint in " ".join(err.replace("│", " ").split())


def test_what_others_call_it_is_understood(ask):
    document, _ = ask(sampling="without-replacement", relation="replace")
    assert document["inputs"]["sampling"] == "fixed-size"
    assert document["inputs"]["relation"] == "replace-one"


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_a_plot_is_written(run, tmp_path: Path, kind):
    path = tmp_path / f"epsilon.{kind}"
    code, out, _ = run(*options(steps=4), "--plot", str(path))
    assert code == 0
    assert out.splitlines()[-1] == f"Figure: {path}"
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[kind]
    assert path.read_bytes().startswith(start)


def test_a_plot_beside_json_leaves_json_alone(run, tmp_path: Path):
    path = tmp_path / "epsilon.svg"
    code, out, _ = run(*options(steps=4), "--plot", str(path), "--json")
    assert code == 0
    assert json.loads(out)["best"] == "pld"
    assert path.exists()


def test_help_teaches(run):
    code, out, _ = run("--help")
    assert code == 0
    shown = " ".join(out.replace("│", " ").split())
    for words in ("poisson", "fixed-size", "full", "cyclic", "permute-once", "shuffle"):
        assert f"{words}:" in shown  # each way to draw batches is explained
    for words in ("[default: final]", "[default: 1.0]", "[default: 0.0]", "--plot", "--json"):
        assert words in shown
    assert f"sordino account {' '.join(EXAMPLE[:6])}" in shown


@pytest.mark.parametrize("arguments", [EXAMPLE, CONVEX])
def test_no_heavy_package_is_loaded(arguments):
    program = (
        "import sys; sys.argv = ['sordino', 'account', *sys.argv[1:]]\n"
        "from sordino.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = ('torch', 'numba', 'pandas', 'sklearn', 'dp_accounting', 'matplotlib', 'jinja2')\n"
        "print([m for m in heavy if m in sys.modules], 'sordino.proofs.theorems' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        **{"capture_output": True, "text": True, "timeout": 60, "check": True},
    )
    assert done.stdout.splitlines()[-1] == "[] True"


class TestWhatOtherOptionsImply:
    @pytest.mark.parametrize(
        ("command", "n", "batch"),
        [
            *(("account", 60_000, 256), ("account", 60_000, 250), ("account", 1797, 32)),
            *(("account", 100, 99), ("calibrate", 1797, 32)),
        ],
    )
    def test_rate_steps_and_opacus_are_said(self, program, command, n, batch):
        noise = {"account": ("--noise-multiplier", 2), "calibrate": ("--epsilon", 3)}[command]
        options = ("--batch-size", batch, "--n", n, "--epochs", 1.5, "--delta", 1e-5)
        code, out, _ = program(command, *noise, *options, "--sampling", "poisson")
        assert code == 0
        a_pass = math.ceil(n / batch)
        assert f"--batch-size {batch} / --n {n} is rate {batch / n:.6g}" in out
        assert f"--epochs 1.5 is {math.ceil(1.5 * a_pass):,} steps, {a_pass:,} a pass.\n" in out
        if n % batch:  # tests/accounting/test_accountant.py asks Opacus itself
            (said,) = (line for line in out.splitlines() if "Opacus" in line)
            rate = float(said.split("--sample-rate ")[1].rstrip("."))
            assert rate == pytest.approx(1 / a_pass, rel=1e-7)
        else:
            assert ", as Opacus has it.\n" in out

    def test_what_was_given_is_not_repeated(self, run, program):
        _, out, _ = run(*EXAMPLE)
        assert "Opacus" not in out
        assert " is rate " not in out
        shuffled = ("--noise-multiplier", 9, "--batch-size", 9, "--n", 99, "--epochs", 1)
        _, out, _ = program("account", *shuffled, "--delta", 1e-5, "--sampling", "shuffle")
        assert "--batch-size 9 / --n 99 is rate 0.0909091.\n" in out
        assert "Opacus" not in out
