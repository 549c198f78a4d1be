"""Tables: what `sordino measure show` prints of a real study, and bounds of an attack."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from sordino import data
from sordino.cli import tables
from sordino.cli.terminal import Screen
from sordino.intrinsic.grid import load
from sordino.intrinsic.measure import measure
from sordino.intrinsic.summary import summary
from sordino.models.constants import ObjectiveSpec
from sordino.privacy import Estimate, Observation
from sordino.sgd import TrainSpec

FIGURES = {
    "utility",
    *("trajectories", "distances", "normality", "pairwise-epsilon"),
    *("training-steps", "convergence", "epsilons"),
}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 seeds x 8 neighbours x 2 inits x 3 steps."""
    store = tmp_path_factory.mktemp("studies") / "digits"
    spec = TrainSpec(ObjectiveSpec("logistic"), 0.5, 32, steps=60)
    measure(spec, data.load("digits/binary").train, 24, 8, checkpoints=3, store=store)
    return store


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network: 6 seeds x 2 neighbours, one init, one step."""
    store = tmp_path_factory.mktemp("studies") / "network"
    spec = TrainSpec(ObjectiveSpec("mlp", hidden=2), 0.5, 32, steps=5)
    measure(spec, data.load("digits/binary").train, 6, 2, init="vary", store=store)
    return store


@pytest.fixture
def show(program):
    return lambda *arguments: program("measure", "show", *arguments)


def test_tables_begin_with_internal_and_call_epsilons_estimates(show, study: Path) -> None:
    code, out, err = show(study)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("INTERNAL")
    assert lines[1].startswith("digits/binary, logistic, 60 steps in batches of 32, rate 0.5; 1,29")
    assert lines[2].startswith("24 seeds x 8 neighbouring datasets and the data itself, initial")
    assert "Every epsilon is an estimate, not a guarantee, at delta = " in lines[3]
    for title in (
        "How far apart models are (L2)",
        "sigma_i: how widely the seed spreads a weight",
        "Sensitivity: how far one record moves the weights",
        "epsilon: estimates, not guarantees",
        "Is the noise Gaussian?",
        "How settled are the numbers?",
    ):
        assert title in out
    assert "guarantee" not in out.replace("not a guarantee", "").replace("not guarantees", "")
    accuracies = rows(out, "Accuracy, if SGD's own noise counted")
    assert list(accuracies) == ["0.1", "0.2", "0.5", "1", "2", "5", "10"]
    assert float(accuracies["0.1"][0]) < float(accuracies["10"][0])  # less noise, fewer errors
    assert "NOT PRIVATE: how much noise was measured on the records." in out


def rows(out: str, title: str) -> dict[str, list[str]]:
    """The rows of one table: its cells by the name in the first column."""
    lines = out.split(title)[1].splitlines()
    start = next(at for at, line in enumerate(lines) if line.strip().startswith("─"))
    found = {}
    for line in lines[start + 1 :]:
        if not line.strip():
            break
        name, *cells = (cell.strip() for cell in line.strip().split("   ") if cell.strip())
        found[name] = cells
    return found


def first(cell: str) -> float:
    """The number before an interval."""
    return float(cell.split()[0].replace(",", ""))


def test_table_numbers_are_those_of_the_summary(show, study: Path) -> None:
    _, out, _ = show(study)
    found = summary(load(study))
    vary, fixed = found.inits
    digits = {"rel": 5e-3}  # three digits are printed of what has an interval
    moved = rows(out, "Sensitivity: how far")
    for name, wanted in (
        ("bound for one record", [found.theory.bound.worst] * 2),
        ("the papers' fraction of it, NOT A BOUND", [found.theory.printed.value] * 2),
        ("largest seen, a lower estimate", [vary.sensitivity, fixed.sensitivity]),
    ):
        assert [first(cell) for cell in moved[name]] == pytest.approx(wanted, rel=5e-4)
    spread = rows(out, "sigma_i: how widely")["least of all datasets (v2)"]
    assert [first(cell) for cell in spread] == pytest.approx(
        [one.sigma["minimum"].value for one in found.inits], **digits
    )
    worth = rows(out, "epsilon: estimates")
    for name, estimate in (
        ("bound for one record", fixed.by_bound.exact),
        ("largest distance seen", fixed.by_observed.exact),
        ("worst pair, all directions", fixed.worst.isotropic_epsilon(found.delta)),
        ("worst pair, one direction", fixed.worst.epsilon(found.delta)),
        ("papers: epsilon_i of their fraction", fixed.by_printed.printed),
        ("papers: epsilon_i* of the largest seen", fixed.by_observed.printed),
    ):
        assert first(worth[name][1]) == pytest.approx(estimate.epsilon, **digits)
    gaps = rows(out, "How far apart models")
    assert first(gaps["delta_V, another seed"][1]) == pytest.approx(
        fixed.delta_v.quantile(0.5), rel=5e-4
    )


def test_json_has_every_number_and_says_what_they_are(show, study: Path) -> None:
    code, out, err = show(study, "--json", "--delta", "1e-7")
    assert (code, err) == (0, "")
    document = json.loads(out)
    found = summary(load(study), delta=1e-7)
    assert document["internal"].startswith("INTERNAL")
    assert "estimate, not a guarantee" in document["epsilons"]
    assert document["delta"] == 1e-7
    assert document["theory"]["bound"] == found.theory.bound.worst
    assert document["theory"]["papers_fraction_not_a_bound"] == found.theory.printed.value
    assert set(document["inits"]) == {"vary", "fixed"}
    vary, one = document["inits"]["vary"], found.of("vary")
    assert vary["sigma"]["minimum"]["value"] == one.sigma["minimum"].value
    assert vary["distances"]["delta_S"]["maximum"] == one.sensitivity
    assert vary["distances"]["delta_V"]["quantiles"]["0.5"] == one.delta_v.quantile(0.5)
    exact = vary["epsilon"]["bound"]["exact"]
    assert exact["epsilon"] == one.by_bound.exact.epsilon
    assert exact["delta"] == 1e-7
    assert exact["caveat"]
    directional = vary["epsilon"]["worst_pair_directional"]
    assert directional["epsilon"] == one.worst.epsilon(1e-7).epsilon
    assert vary["by_steps"]["steps"] == list(one.by_steps.steps)
    pair = [one.neighbours[at] for at in one.worst.pair]
    assert vary["worst_pair"]["neighbours"] == pair


def test_figures_are_drawn(show, study: Path, tmp_path: Path) -> None:
    target = tmp_path / "new" / "figures"
    code, out, _ = show(study, "--figures", target)
    assert code == 0
    assert {path.name for path in target.iterdir()} == {f"{name}.svg" for name in FIGURES}
    assert "INTERNAL figures: " in out
    assert "Not drawn" not in out
    assert target.stat().st_mode & 0o777 == 0o700


def test_with_json_the_words_about_figures_go_to_standard_error(
    show, small: Path, tmp_path: Path
) -> None:
    code, out, err = show(small, "--json", "--figures", tmp_path, "--format", "png")
    assert code == 0
    json.loads(out)
    assert err.startswith("INTERNAL figures: ")
    assert {path.suffix for path in tmp_path.iterdir()} == {".png"}


def test_a_small_network_says_what_it_cannot_tell(show, small: Path, tmp_path: Path) -> None:
    code, out, _ = show(small, "--figures", tmp_path)
    assert code == 0
    assert "Note: No theoretical bound: The loss of this model (mlp) is not convex" in out
    assert "Note: No directional estimate (vary): Expected seeds=6" in out
    assert "bound for one record" not in out
    assert "for want of numbers: training-steps, trajectories, utility." in out
    assert {path.stem for path in tmp_path.iterdir()} == FIGURES - {
        "trajectories",
        "training-steps",
        "utility",
    }
    document = json.loads(show(small, "--json")[1])
    assert document["theory"]["bound"] is None
    assert document["inits"]["vary"]["worst_pair"] is None


def test_wrong_usage_exits_with_2_before_any_work(show, study: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for arguments, sentence in (
        ((study, "--delta", "0"), "Expected delta=0.0 in (0, 1)"),
        ((study, "--figures", file), "to be a directory that can be made"),
        ((study, "--figures", file / "below"), "to be a directory that can be made"),
        ((study, "--format", "bmp"), "bmp"),
        ((), "DIR"),
    ):
        code, out, err = show(*arguments)
        assert (code, out) == (2, "")
        assert sentence in err


def test_what_is_no_study_exits_with_1(show, tmp_path: Path) -> None:
    code, out, err = show(tmp_path)
    assert (code, out) == (1, "")
    assert err.startswith(f"Expected study={tmp_path} to be a study")


def test_infinite_epsilons_are_words_and_json_numbers() -> None:
    from sordino.cli.measure import _plain

    found = Estimate(math.inf, 1e-6, 2.0, math.inf, 0.95, "some", "something")
    assert tables._interval(found) == "infinite (2.00-infinite)"
    assert _plain(found)["epsilon"] == math.inf
    assert _plain({"x": (math.nan, 1.0)}) == {"x": [None, 1.0]}


def test_the_file_of_the_command_loads_nothing_heavy() -> None:
    code = (
        "import sys; import sordino.cli.main; "
        "assert not {'numpy', 'matplotlib', 'torch', 'zarr'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_shown_number_is_rounded_up() -> None:
    for value in (1.41463, 0.1, 12345.678, 3e-7, 8.00001):
        assert value <= float(tables.number(value)) <= value * (1 + 1e-4)
    assert tables.number(0.0) == "0"
    assert tables.number(math.inf) == "infinite"
    assert tables.number(None) == "-"
    assert tables.number(1234567) == "1,234,567"


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_the_table_of_bounds_fits_and_no_heading_shows_an_escape(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("sordino.cli.tables.screen", lambda: Screen(width=columns))
    bound = Observation(1.23, 1e-5, 0.99, "a learned direction, at one threshold " * 3, 12345)
    tables.print_bounds(bound, [bound])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    assert not [line for line in lines if "\\" in line or "…" in line]
