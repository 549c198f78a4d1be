"""How fast private training of networks is: beside plain PyTorch, Opacus and Opake, in one run.

    python benchmarks/networks.py [--json FILE] [--smoke] [--only MODEL,...] [--threads N]
                                  [--clock wall|cpu] [--rounds N] [--opake-python PYTHON]
    python benchmarks/networks.py --mnist [--json FILE] [--data-dir DIR]

A step is forward, loss, gradients, (clip,) (noise,) SGD on a batch of 256 that stays. Steps take
turns, and every figure is the median of ratios within a turn, because other work on the machine
slows whatever runs beside it. Without noise ("clip") and with it, each library with its own: ours
from the operating system, the others' from generators with a seed, which cost less and protect
less. Opake is asked of another Python (`--opake-python`), by turns with plain steps of its own.
Memory is measured in fresh processes (network_study/peak.py). On a busy machine `--threads 1
--clock cpu` says more than the wall clock does.

`--mnist` trains the CNN on MNIST instead, for epsilon 3 and delta 1e-5: minutes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import warnings
from dataclasses import dataclass
from pathlib import Path

import torch
from network_study import mnist, peak, steps, timing
from network_study.models import MODELS, weights
from network_study.timing import Pace, Times
from rich.console import Console
from rich.table import Table

REQUIRED = {
    "mlp_clip_over_plain": ("<=", 1.7),
    "cnn_clip_over_plain": ("<=", 2.0),
    "transformer_clip_over_plain": ("<=", 1.8),
    "mlp_over_plain": ("<=", 4.0),
    "cnn_over_plain": ("<=", 2.2),
    "transformer_over_plain": ("<=", 2.2),
    **{f"{name}_{kind}over_best_opacus": ("<=", 1.0) for name in MODELS for kind in ("clip_", "")},
    **{f"{name}_{kind}over_opake": ("<=", 1.0) for name in MODELS for kind in ("clip_", "")},
    "noise_ns_a_weight": ("<=", 15.0),
    "mlp_peak_over_plain": ("<=", 2.0),
    "transformer_peak_over_plain": ("<=", 2.0),
    "mnist_accuracy": (">=", 0.96),
    "mnist_seconds": ("<=", 600.0),
}
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Size:
    """How much to run: what is required, or seconds for CI."""

    rows: int
    rounds: int
    cell_s: float
    peaks: int
    peaks_of: tuple[str, ...]


FULL = Size(256, 9, 0.2, 3, tuple(MODELS))
SMOKE = Size(4, 1, 0.0, 1, ("mlp",))


def measured(name: str, rows: int, pace: Pace, console: Console) -> Times:
    """Seconds of every step on one network; who cannot train it is named and left out."""
    model = MODELS[name]
    batch, made = model.batch(rows), {}
    for step_name, make in steps.all_of_them().items():
        try:
            step = make(model.module(), batch)
            step()
        except Exception as error:
            if not step_name.startswith("opacus"):
                raise
            console.print(f"{name}: {step_name} fails: {str(error)[:200]}")
            continue
        made[step_name] = step
    return timing.by_turns(made, pace)


def with_opake(python: Path, name: str, rows: int, pace: Pace, console: Console) -> Times | None:
    """The same of Opake and plain steps, by a Python that has it; None where it fails."""
    asked = (name, rows, torch.get_num_threads(), pace.rounds, pace.cell_s, pace.clock)
    command = [str(python), "-m", "network_study.opake_side", *map(str, asked)]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True)
    if done.returncode:
        console.print(f"{name}: Opake fails: {done.stderr.strip()[-200:]}")
        return None
    times: Times = json.loads(done.stdout.splitlines()[-1])
    return times


def figures_of(name: str, times: Times, beside: Times | None) -> dict[str, float]:
    """What is reported of one network's times; `beside` are Opake's and of plain steps there."""
    found = {f"{name}_plain_ms": 1000 * statistics.median(times["plain"])}
    for step_name in times:
        if step_name != "plain":
            key = step_name.removeprefix("ours_").removeprefix("ours")
            found[f"{name}_{key}{'_' if key else ''}over_plain"] = timing.ratio(
                times, step_name, "plain"
            )
    for ending, kind in (("_clip", "clip_"), ("", "")):
        theirs = [f"opacus_{mode}{ending}" for mode in steps.MODES]
        theirs = [step_name for step_name in theirs if step_name in times]
        if theirs and f"ours{ending}" in times:
            best = min(theirs, key=lambda step_name: timing.ratio(times, step_name, "plain"))
            found[f"{name}_{kind}over_best_opacus"] = timing.ratio(times, f"ours{ending}", best)
        if beside is not None:
            theirs_over_plain = timing.ratio(beside, f"opake{ending}", "plain")
            found[f"{name}_opake{ending}_over_plain"] = theirs_over_plain
            if f"ours{ending}" in times:
                mine = found[f"{name}_{kind}over_plain"]
                found[f"{name}_{kind}over_opake"] = mine / theirs_over_plain
    return found


def noise_ns_a_weight(rows: int, pace: Pace) -> float:
    """What noise adds to a step of the MLP, after the clipped sum is there."""
    model = MODELS["mlp"]
    batch = model.batch(rows)
    kinds = {"none": 0.0, "noise": steps.NOISE}
    made = {kind: steps.ours_applied(z)(model.module(), batch) for kind, z in kinds.items()}
    times = timing.by_turns(made, pace)
    added = (noisy - quiet for noisy, quiet in zip(times["noise"], times["none"], strict=True))
    return 1e9 * statistics.median(added) / weights(model.module())


def peaks(name: str, size: Size) -> dict[str, float]:
    """Memory of ours and of Opacus' thriftiest mode over that of plain steps."""
    wanted = ["plain", "opacus_ghost", "ours"]
    threads = torch.get_num_threads()
    found = {
        step_name: peak.measured(name, step_name, size.rows, threads, size.peaks)
        for step_name in wanted
    }
    plain = found.pop("plain")
    names = {
        "ours": f"{name}_peak_over_plain",
        "opacus_ghost": f"{name}_opacus_ghost_peak_over_plain",
    }
    return {f"{name}_plain_peak_mb": plain / 1e6} | {
        names[step_name]: bytes_ / plain for step_name, bytes_ in found.items()
    }


def measure(
    names: list[str], size: Size, pace: Pace, opake: Path | None, console: Console
) -> dict[str, float]:
    figures: dict[str, float] = {"threads": float(torch.get_num_threads())}
    for name in names:
        times = measured(name, size.rows, pace, console)
        beside = with_opake(opake, name, size.rows, pace, console) if opake else None
        figures |= figures_of(name, times, beside)
        if name in size.peaks_of:
            figures |= peaks(name, size)
    figures["noise_ns_a_weight"] = noise_ns_a_weight(size.rows, pace)
    return figures


def show(figures: dict[str, float], smoke: bool, console: Console) -> None:
    table = Table("figure", "value", "required", title="benchmarks/networks.py")
    for name, value in figures.items():
        verdict = ""
        if name in REQUIRED and not smoke:
            comparison, bound = REQUIRED[name]
            met = value >= bound if comparison == ">=" else value <= bound
            verdict = f"{comparison} {bound:g} {'met' if met else 'NOT MET'}"
        table.add_row(name, f"{value:,.4g}", verdict)
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--smoke", action="store_true", help="seconds, batches of four, for CI")
    parser.add_argument("--only", default=",".join(MODELS), help="some of: %(default)s")
    parser.add_argument("--threads", type=int, help="of torch, for everybody; 2, smoke 1")
    parser.add_argument("--clock", choices=sorted(timing.CLOCKS), default="wall")
    parser.add_argument("--rounds", type=int, help=f"default: {FULL.rounds}")
    parser.add_argument("--opake-python", type=Path, help="a Python that has Opake")
    parser.add_argument("--mnist", action="store_true", help="train the CNN on MNIST instead")
    parser.add_argument("--data-dir", type=Path, help="raw files; default: SORDINO_DATA")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads or (1 if arguments.smoke else 2))
    warnings.filterwarnings("ignore", "Full backward hook is firing")  # of Opacus' hooks
    console, size = Console(), SMOKE if arguments.smoke else FULL
    pace = Pace(arguments.rounds or size.rounds, size.cell_s, arguments.clock)
    if arguments.mnist:
        figures = mnist.measure(arguments.data_dir)
    else:
        names = arguments.only.split(",")
        figures = measure(names, size, pace, arguments.opake_python, console)
    show(figures, arguments.smoke, console)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
