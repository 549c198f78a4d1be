"""The battery of modules through sordino and through Opacus: right, wrong, refused or failed.

    python benchmarks/networks_battery.py [--json FILE] [--markdown FILE] [--only NAME,...]
                                          [--smoke]

Modules, inputs and the loop over single examples are those of `tests/networks`. Clipped sums are
compared in float64 on batches of 5, over several draws, so that what is right agrees to 1e-9; what
fails in float64 gets a second chance in float32, to 1e-4.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import opacus
import torch
from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPTensorFastGradientClipping
from opacus.validators import ModuleValidator, module_validator
from rich.console import Console
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "networks"))

import judge
from oracle import Gradients, norms, single_gradients, trained
from zoo import SEPARATE, ZOO, Entry

from sordino.errors import InvalidArgument

N = 5
DRAWS = 5
"""Batches a module: some mix examples on some batches only."""
COARSE = 1e-4
"""What is still rounding in float32."""
SMOKE = ("mlp", "lstm", "linear-folded", "mlp-batchnorm", "loss-contrastive", "weight-norm")
NOT_BY_ITS_SUM = {
    "BatchNorm",
    "buffer",
    "control flow",
    "max_norm",
    "scale_grad_by_freq",
    "state",
    "weights",
}
"""Reasons to refuse a module whatever its gradients are; of others the gradients tell."""


@dataclass(frozen=True)
class Verdict:
    """`word` is right, wrong, refused, or failed: an exception in the middle of a step."""

    word: str
    why: str = ""


WORDS = ("right", "wrong", "refused", "failed")


class Refused(Exception):
    """The library said before any training that it does not take this module."""


def first_line(error: object) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 120 else f"{text[:117]}..."


# --- sordino


def ours(entry: Entry) -> Verdict:
    """Judge sordino's engine on the entry, with every kind of clipping.

    What it says before training is "refused"; what it trains is compared with the loop.
    """
    verdict = ours_in(torch.float64, entry)
    return ours_in(torch.float32, entry) if verdict.word == "failed" else verdict


def ours_in(dtype: torch.dtype, entry: Entry) -> Verdict:
    engines = set()
    try:
        for seed in range(DRAWS):
            found, why = judge.judged(entry, dtype, seed, (N,))
            if why:
                return Verdict("wrong", why)
            engines.add(found)
    except InvalidArgument as error:
        return Verdict("refused", first_line(error))
    except Exception as error:
        return Verdict("failed", f"{type(error).__name__}: {first_line(error)}")
    mixes_no_more = engines <= SEPARATE.get(entry.name, set())
    if entry.refused and not mixes_no_more:
        return Verdict("wrong", f"accepted, though: {entry.refused}")
    return Verdict("right", " or ".join(sorted(engines)))


# --- Opacus


def opacus_model(module: nn.Module, fix: bool) -> nn.Module:
    """Return the module as `make_private` takes it; with `fix`, after Opacus replaced layers."""
    if fix and ModuleValidator.validate(module):
        try:
            module = ModuleValidator.fix(module).to(next(module.parameters()).dtype)
        except Exception as error:
            raise Refused(first_line(error)) from error
    found = ModuleValidator.validate(module)
    if found:
        raise Refused(first_line(found[0]))
    return module


def reduction(entry: Entry) -> str:
    """Return what an Opacus user would say of that loss: only its total counts there."""
    return "mean" if entry.name in ("loss-scalar", "loss-over-batch-size") else "sum"


def one_loss_each(losses: Tensor) -> Tensor:
    """Ghost clipping asks for losses of single examples, and its loss class makes them."""
    if losses.shape != (N,):
        raise Refused("losses are not one an example")
    return losses


def wrapped(kind: Any, module: nn.Module, entry: Entry, **how: Any) -> Any:
    try:
        return kind(module, **{"loss_reduction": reduction(entry)} | how)
    except NotImplementedError as error:
        raise Refused(first_line(error)) from error


def by_hooks(
    module: nn.Module, entry: Entry, batch: tuple[Tensor, ...], length: float
) -> Gradients:
    return _by_samples(wrapped(GradSampleModule, module, entry), entry, batch, length)


def by_functorch(
    module: nn.Module, entry: Entry, batch: tuple[Tensor, ...], length: float
) -> Gradients:
    model = wrapped(GradSampleModule, module, entry, force_functorch=True)
    return _by_samples(model, entry, batch, length)


def _by_samples(model: Any, entry: Entry, batch: tuple[Tensor, ...], length: float) -> Gradients:
    named = trained(model._module)
    optimizer = DPOptimizer(
        torch.optim.SGD(named.values(), lr=1.0),
        noise_multiplier=0.0,
        max_grad_norm=length,
        expected_batch_size=N,
        loss_reduction=reduction(entry),
    )
    entry.losses(model, *batch).sum().backward()
    optimizer.clip_and_accumulate()
    return {name: each.summed_grad for name, each in named.items()}


def by_ghost(
    module: nn.Module, entry: Entry, batch: tuple[Tensor, ...], length: float
) -> Gradients:
    how = {"loss_reduction": "sum", "max_grad_norm": length}
    model = wrapped(GradSampleModuleFastGradientClipping, module, entry, **how)
    named = trained(module)
    optimizer = DPOptimizerFastGradientClipping(
        torch.optim.SGD(named.values(), lr=1.0),
        noise_multiplier=0.0,
        expected_batch_size=N,
        **how,
    )
    losses = one_loss_each(entry.losses(model, *batch))
    DPTensorFastGradientClipping(model, optimizer, losses, "sum").backward()
    return {
        name: torch.zeros_like(each) if each.grad is None else each.grad.to_dense()
        for name, each in named.items()
    }


Mode = Callable[[nn.Module, Entry, tuple[Tensor, ...], float], Gradients]


def judged(entry: Entry, mode: Mode, fix: bool) -> Verdict:
    """Compare the clipped sums of several draws with the loop over single examples."""
    verdict = judged_in(torch.float64, entry, mode, fix)
    return judged_in(torch.float32, entry, mode, fix) if verdict.word == "failed" else verdict


def judged_in(dtype: torch.dtype, entry: Entry, mode: Mode, fix: bool) -> Verdict:
    try:
        for seed in range(DRAWS):
            model = opacus_model(entry.module(dtype, seed), fix)
            verdict = compared(entry, mode, model, dtype, seed)
            if verdict:
                return verdict
    except Refused as error:
        return Verdict("refused", str(error))
    except Exception as error:
        return Verdict("failed", f"{type(error).__name__}: {first_line(error)}")
    healed = entry.refused == "BatchNorm" and not has_batchnorm(model)
    # Where randomness is fixed to compare, the loop takes the batch as it is, mixed or not.
    unseen = entry.refused in NOT_BY_ITS_SUM or (entry.refused and entry.random)
    if unseen and not healed:
        return Verdict("wrong", f"accepted, though: {entry.refused}")
    return Verdict("right")


def has_batchnorm(model: nn.Module) -> bool:
    return any(isinstance(each, nn.modules.batchnorm._BatchNorm) for each in model.modules())


def compared(
    entry: Entry, mode: Mode, model: nn.Module, dtype: torch.dtype, seed: int
) -> Verdict | None:
    """Return what is wrong with one draw."""
    batch = entry.batch(N, dtype, seed, beyond=True)
    single = alone(entry, model, batch, seed)
    length = float(norms(single).median()) or 1.0
    torch.manual_seed(seed)
    found = mode(model, entry, tuple(each.clone() for each in batch), length)
    # Opacus' factor, which is a little smaller than length / norm.
    factors = (length / (norms(single) + 1e-6)).clamp(max=1.0)
    tolerance = COARSE if dtype is torch.float32 else entry.tolerance
    for name, each in single.items():
        wanted = torch.einsum("n,n...->...", factors.to(each.dtype), each)
        if wanted.shape != found[name].shape:
            return Verdict("wrong", f"{name} has shape {tuple(found[name].shape)}")
        off = float((wanted - found[name]).abs().max())
        if not off <= tolerance * max(1.0, float(wanted.abs().max())):
            return Verdict("wrong", f"{name} is off by {off:.1g} at clip {length:.1g}")
    return None


def alone(entry: Entry, model: nn.Module, batch: tuple[Tensor, ...], seed: int) -> Gradients:
    """Gradients of single examples; for fixed randomness if there is some."""

    def total(module: nn.Module, *part: Tensor) -> Tensor:
        return entry.losses(module, *part).sum().reshape(1)

    if entry.random:
        return single_gradients(model, entry.losses, batch, seed)
    try:
        return single_gradients(model, total, batch)
    except ValueError:  # a norm that refuses one example, or what Opacus made of it
        return single_gradients(model, entry.losses, batch, seed)


MODES: dict[str, tuple[Mode, bool]] = {
    "Opacus": (by_hooks, False),
    "Opacus, fixed": (by_hooks, True),
    "Opacus functorch": (by_functorch, False),
    "Opacus ghost": (by_ghost, False),
}


def row(entry: Entry) -> dict[str, Verdict]:
    found = {"sordino": ours(entry)}
    for name, (mode, fix) in MODES.items():
        found[name] = judged(entry, mode, fix)
    return found


def expected(entry: Entry) -> str:
    """Say what must be made of the entry."""
    if entry.refused and entry.name not in SEPARATE:
        return f"refused: {entry.refused}"
    if entry.refused:
        return "refused, or one at a time"
    return "right or refused" if entry.may_refuse else "right"


COLUMNS = ("sordino", "Opacus", "Opacus, fixed", "Opacus ghost")
"""Of the table for the docs; Opacus with functorch for every layer stands in the figures alone."""


def markdown(rows: dict[str, dict[str, Verdict]]) -> str:
    """Return the table for the docs: modules of which all say the same share a line."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for entry in ZOO:
        if entry.name in rows:
            must = expected(entry).partition(":")[0]
            words = [rows[entry.name][column].word for column in COLUMNS]
            alike.setdefault((must, *words), []).append(entry.name)
    lines = [f"| must be | {' | '.join(COLUMNS)} | modules |", "|---" * (len(COLUMNS) + 2) + "|"]
    order = ["right", "right or refused", "refused, or one at a time", "refused"]
    for must, *words in sorted(alike, key=lambda each: (order.index(each[0]), each)):
        cells = [f"**{word}**" if word == "wrong" else word for word in words]
        names = ", ".join(alike[must, *words])
        lines.append(f"| {must} | {' | '.join(cells)} | {names} |")
    for word in WORDS:
        counts = [sum(each[column].word == word for each in rows.values()) for column in COLUMNS]
        lines.append(f"| *all {word}* | {' | '.join(map(str, counts))} | |")
    return "\n".join(lines) + "\n"


def violations(rows: dict[str, dict[str, Verdict]]) -> list[str]:
    """List where sordino is not what it must be."""
    entries = {entry.name: entry for entry in ZOO}
    allowed = {
        name: {"refused"}
        if entry.refused and name not in SEPARATE
        else {"right", "refused"}
        if entry.may_refuse or entry.refused
        else {"right"}
        for name, entry in entries.items()
    }
    return [
        f"{name} is {verdicts['sordino'].word}, must be {expected(entries[name])}"
        for name, verdicts in rows.items()
        if verdicts["sordino"].word not in allowed[name]
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    parser.add_argument("--only", help="modules, with commas")
    parser.add_argument("--smoke", action="store_true", help="a few modules, for CI")
    options = parser.parse_args()
    names = SMOKE if options.smoke else tuple(entry.name for entry in ZOO)
    names = tuple(options.only.split(",")) if options.only else names
    torch.set_num_threads(1)
    # Opacus copies a module by pickling, which modules of the battery with a lambda do not survive.
    module_validator.clone_module = deepcopy
    warnings.simplefilter("ignore")  # Opacus', of hooks that never fire
    logging.getLogger("opacus").setLevel(logging.ERROR)
    console = Console(soft_wrap=True)
    rows = {}
    for entry in ZOO:
        if entry.name in names:
            rows[entry.name] = row(entry)
            said = (
                f"{column}: {each.word} {each.why}" for column, each in rows[entry.name].items()
            )
            console.print(entry.name, *said, sep="\n    ", markup=False, highlight=False)
    columns = ("sordino", *MODES)
    counts = {column: Counter(each[column].word for each in rows.values()) for column in columns}
    wrong = violations(rows)
    flat: dict[str, Any] = {"modules": len(rows), "violations": len(wrong)}
    for column, counted in counts.items():
        for word in WORDS:
            flat[f"{column}_{word}".lower().replace(", ", "_").replace(" ", "_")] = counted[word]
    console.print(f"Opacus {opacus.__version__}, torch {torch.__version__}", *wrong, sep="\n")
    console.print(flat)
    if options.markdown:
        options.markdown.write_text(markdown(rows))
    if options.json:
        verdicts = {
            name: {column: [each.word, each.why] for column, each in found.items()}
            for name, found in rows.items()
        }
        versions = {"opacus": opacus.__version__, "torch": torch.__version__}
        options.json.write_text(
            json.dumps({**flat, "versions": versions, "rows": verdicts}, indent=2)
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
