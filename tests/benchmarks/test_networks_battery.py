from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import networks_battery as benchmark  # noqa: E402
from networks_battery import Verdict  # noqa: E402
from zoo import named  # noqa: E402

# Opacus warns of hooks that hang on inputs without a gradient.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("mlp", "right"),
        ("linear-folded", "wrong"),  # rows are taken for examples
        ("lstm", "refused"),
        ("loss-contrastive", "wrong"),
        ("loss-mixup", "wrong"),  # its sum over rows agrees, its rows are of two examples
        ("remembers-in-a-buffer", "wrong"),
        ("unused-parameter", "failed"),
    ],
)
def test_opacus_is_judged_by_the_loop(name: str, word: str) -> None:
    assert benchmark.judged(named(name), benchmark.by_hooks, fix=False).word == word


def test_a_mode_that_clips_the_mean_is_wrong() -> None:
    def broken(module, entry, batch, length):
        mean = entry.losses(module, *batch).mean()
        named = benchmark.trained(module)
        found = torch.autograd.grad(mean, list(named.values()))
        return dict(zip(named, found, strict=True))

    verdict = benchmark.judged(named("mlp"), broken, fix=False)
    assert verdict.word == "wrong"


def rows(**words: str) -> dict[str, dict[str, Verdict]]:
    modes = dict.fromkeys(benchmark.MODES, Verdict("wrong"))
    return {name: {"sordino": Verdict(word), **modes} for name, word in words.items()}


def test_ours_must_be_right_or_refused_as_the_battery_says() -> None:
    assert benchmark.violations(rows(mlp="right", vit="right")) == []
    assert benchmark.violations(rows(mlp="refused", vit="wrong", unet="failed")) == [
        "mlp is refused, must be right",
        "vit is wrong, must be right",
        "unet is failed, must be right",
    ]
    assert benchmark.violations({"mlp-batchnorm": rows(mlp="right")["mlp"]}) == [
        "mlp-batchnorm is right, must be refused: BatchNorm"
    ]
    assert benchmark.violations({"linear-folded": rows(mlp="refused")["mlp"]}) == []
    assert benchmark.violations({"linear-folded": rows(mlp="wrong")["mlp"]}) != []


def test_modules_alike_share_a_line_of_the_table() -> None:
    table = benchmark.markdown(rows(mlp="right", unet="right", vit="wrong"))
    assert table.splitlines()[2:] == [
        "| right | right | **wrong** | **wrong** | **wrong** | mlp, unet |",
        "| right | **wrong** | **wrong** | **wrong** | **wrong** | vit |",
        "| *all right* | 2 | 0 | 0 | 0 | |",
        "| *all wrong* | 1 | 3 | 3 | 3 | |",
        "| *all refused* | 0 | 0 | 0 | 0 | |",
        "| *all failed* | 0 | 0 | 0 | 0 | |",
    ]
