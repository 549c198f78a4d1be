"""Every module of the battery: its clipped sums are those of the loop, or it is refused.

What the engine says of a module, and which way it takes, is found on other inputs than those on
which it is judged, and by another program than its own trial: `oracle.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from judge import judged
from torch import Tensor, nn
from zoo import SEPARATE, ZOO, Entry, named

from sordino.errors import InvalidArgument
from sordino.networks.trial import choose

REFUSED = [entry for entry in ZOO if entry.refused and entry.name not in SEPARATE]
SERVED = [entry for entry in ZOO if not entry.refused or entry.name in SEPARATE]
OFTEN = 2
"""Of those that are neither fast nor new nor doubtful, one in so many is tried by default."""
REFUSED_THOUGH_RIGHT = {
    "complex-parameter": "[w]",
    "rows-frozen-by-a-hook": "[embed.weight]",
    "stabilised-by-the-batch": "[Net]",
}
"""All of those that may be, with what is named."""

BLAME = {
    "batchnorm-train-on-frozen-base": "[1: BatchNorm1d]",
    "batchnorm-without-statistics": "[1: BatchNorm1d]",
    "clamped-weights": "[body: Linear]",
    "embedding-max-norm": "[embed: Embedding]",
    "embedding-scaled-by-frequency": "[embed: Embedding]",
    "instancenorm-tracking": "[1: InstanceNorm1d]",
    "iterates-until-all-converge": "[body: Linear]",
    "loss-of-hard-examples": "losses=",
    "loss-over-tokens-of-the-batch": "losses=",
    "loss-scalar": "losses(module, *batch)=",
    "mlp-batchnorm": "[1: BatchNorm1d]",
    "recurrent-over-examples": "[cell: LSTM]",
    "remembers-in-a-buffer": "'kept'",
    "transformer-attends-over-examples": "[layer.self_attn: MultiheadAttention]",
}
"""What a refusal must name, where one part is to blame."""

_FAST = """
    mlp mlp-layernorm mlp-groupnorm mlp-rmsnorm mlp-inplace-relu mlp-inplace-residual mlp-mixer
    linear-on-3d linear-folded linear-steps-first linear-shared-five-deep two-heads prelu film
    autoencoder autoencoder-tied batchnorm-eval batchnorm-frozen instancenorm2d
    lenet resnet-groupnorm vgg convnext unet text-cnn conv3d conv-grouped-dilated-strided
    conv-padding-reflect-circular conv-padding-same conv-transposed-1d conv-autoencoder-tied
    pixel-shuffle squeeze-excite spatial-transformer vit
    transformer-tied transformer-steps-first transformer-norm-first-padding
    transformer-encoder-decoder cross-attention attention-by-hand attention-dropout perceiver
    llama-block gated-linear-attention tied-language-model embedding-padding
    factorisation-recommender
    lstm lstm-steps-first lstm-bidirectional lstm-dropout gru gru-without-bias rnn lstm-cell
    siamese dropout dropout-of-channels stochastic-depth variational-autoencoder gumbel-softmax
    denoising-diffusion diffusion-with-whole-times speech-ctc graphs-joined
    loss-past-the-forward loss-of-two-views loss-weighted-by-example function-without-rule
    lora bias-only weight-only frozen-body-without-gradient unused-parameter
"""
FAST = _FAST.split()
"""What people train, and what is built like it: one pass must serve it."""


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # small sums wait for other threads longer than they take
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("entry", REFUSED, ids=lambda entry: entry.name)
def test_what_would_be_wrong_is_refused_in_a_sentence(entry: Entry) -> None:
    with pytest.raises(InvalidArgument) as caught:
        judged(entry, torch.float64)
    said = str(caught.value)
    assert said.startswith("Expected ")
    assert said.endswith(".")
    assert "\n" not in said
    assert BLAME.get(entry.name, "") in said


def by_default() -> Iterator[Entry]:
    doubtful = {*REFUSED_THOUGH_RIGHT, *SEPARATE, *FAST}
    for place, entry in enumerate(SERVED):
        new = entry.make.__module__.endswith("fresh")
        if entry.name in doubtful or entry.random or new or place % OFTEN == 0:
            yield entry


@pytest.mark.parametrize("entry", list(by_default()), ids=lambda entry: entry.name)
def test_clipped_sums_are_those_of_the_loop(entry: Entry) -> None:
    if blamed := REFUSED_THOUGH_RIGHT.get(entry.name):
        assert entry.may_refuse
        with pytest.raises(InvalidArgument) as caught:
            judged(entry, torch.float64)
        assert blamed in str(caught.value)
        return
    engine, off = judged(entry, torch.float64, sizes=(5, 1))
    assert off == ""
    if entry.name in FAST:
        assert engine == "one pass"
    if entry.name in SEPARATE:
        assert engine in SEPARATE[entry.name]


def test_the_lists_are_of_entries() -> None:
    for name in (*FAST, *BLAME, *SEPARATE, *REFUSED_THOUGH_RIGHT):
        assert named(name)
    assert not {entry.name for entry in REFUSED} & set(FAST)
    assert {name for name in BLAME if not named(name).refused} == set()


@pytest.mark.parametrize("least", [6, 32])
def test_what_larger_batches_do_otherwise_is_seen(least: int) -> None:
    def losses(module: nn.Module, x: Tensor) -> Tensor:
        h = module(x)
        return ((h - h.mean(0)) if len(x) > least else h).square().sum(1)

    inputs = (torch.randn(8, 6, generator=torch.Generator().manual_seed(0)),)
    with pytest.raises(InvalidArgument, match=r"Expected losses=\[losses\] not to mix examples"):
        choose(nn.Linear(6, 3), losses, inputs)


# Torch says so once of a layer with projections in float32, whoever asks.
@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported:UserWarning")
@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "seed"), [(torch.float64, 1), (torch.float32, 2)], ids=str)
@pytest.mark.parametrize("entry", ZOO, ids=lambda entry: entry.name)
def test_no_weights_and_no_batch_make_it_wrong(entry: Entry, dtype: torch.dtype, seed: int) -> None:
    try:
        engine, off = judged(entry, dtype, seed, sizes=(1, 2, 5, 9))
    except InvalidArgument:
        assert entry.refused or entry.name in REFUSED_THOUGH_RIGHT
        return
    assert off == ""
    assert not entry.refused or engine in SEPARATE[entry.name]
