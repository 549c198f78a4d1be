"""Is the battery itself true? Plain torch: no engine is asked.

What must be right has examples that do not mix, in losses, gradients and state. What must be
refused is shown to be wrong, in the way that its entry names.
"""

from __future__ import annotations

import math

import pytest
import torch
from oracle import clipped_sum, norms, single_gradients, trained, unchanged
from torch import Tensor, nn
from zoo import ZOO, Entry, named

N = 5
RIGHT = [entry for entry in ZOO if not entry.refused]
REFUSED = [entry for entry in ZOO if entry.refused]

EVIDENCE = {
    "BatchNorm": "losses",
    "buffer": "buffers",
    "control flow": "losses",
    "max_norm": "weights",
    "mix": "losses or gradients or sum",
    "place": "place",
    "scale_grad_by_freq": "gradients",
    "shape": "shape",
    "size": "size",
    "state": "state",
    "weights": "weights",
}
"""What shows that a reason to refuse is true; the keys are all reasons that entries may give."""

WITHOUT_GRADIENT = {
    # never used
    "unused-parameter": {"unused.weight", "unused.bias"},
    "frozen-body-without-gradient": {"body.weight", "body.bias"},
    # a constant a channel, which the norm of the channel takes off
    "instancenorm1d": {"0.bias"},
    "instancenorm2d": {"0.bias"},
}


def differ(a: Tensor, b: Tensor, tolerance: float = 1e-9) -> bool:
    """Tell more than two orders of the same sums in float64, of some thousand terms."""
    scale = max(1.0, float(b.detach().abs().max())) if b.numel() else 1.0
    return a.shape != b.shape or bool(((a - b).abs() > tolerance * scale).any())


class Trial:
    """One module and one batch, and ways in which examples may leave traces in one another."""

    def __init__(self, entry: Entry, seed: int) -> None:
        self.entry, self.seed = entry, seed
        self.module = entry.module(torch.float64, seed)
        self.batch = entry.batch(N, torch.float64, seed, beyond=True)
        self.other = entry.batch(N, torch.float64, seed + 1000, beyond=True)

    def losses(self, *batch: Tensor) -> Tensor:
        torch.manual_seed(self.seed)
        return self.entry.losses(self.module, *(each.clone() for each in batch))

    def gradient(self, loss: Tensor) -> Tensor:
        """All gradients in one row, complex ones as two numbers."""
        weights = list(trained(self.module).values())
        found = torch.autograd.grad(loss, weights, allow_unused=True)
        rows = [
            torch.zeros_like(weight) if each is None else each.to_dense()
            for each, weight in zip(found, weights, strict=True)
        ]
        return torch.cat(
            [(torch.view_as_real(each) if each.is_complex() else each).flatten() for each in rows]
        )

    def with_another(self, place: int) -> list[Tensor]:
        return [
            torch.cat([each[:place], new[place : place + 1], each[place + 1 :]])
            for each, new in zip(self.batch, self.other, strict=True)
        ]

    def shape(self) -> bool:
        with unchanged(self.module):
            return tuple(self.losses(*self.batch).shape) != (N,)

    def mixed(self) -> set[str]:
        """Replace one example: do others' losses change, or the gradient of their sum?"""
        traces = set()
        for place in range(N):
            others = [each for each in range(N) if each != place]
            found = []
            for batch in (self.batch, self.with_another(place)):
                with unchanged(self.module):
                    losses = self.losses(*batch)[others]
                    found.append((losses.detach(), self.gradient(losses.sum())))
            (losses, gradient), (again, gradient_again) = found
            traces |= {"losses"} if differ(losses, again) else set()
            traces |= {"gradients"} if differ(gradient, gradient_again) else set()
        return traces

    def sum(self) -> bool:
        """Is the gradient of the sum another than the sum of gradients?"""
        parts = []
        for place in [None, *range(N)]:
            with unchanged(self.module):
                losses = self.losses(*self.batch)
                parts.append(self.gradient(losses.sum() if place is None else losses[place]))
        return differ(parts[0], torch.stack(parts[1:]).sum(0))

    def buffers(self) -> bool:
        """Do other examples leave other buffers?"""
        after = []
        for batch in (self.batch, self.other):
            with unchanged(self.module):
                self.gradient(self.losses(*batch).sum())
                after.append([each.clone() for each in self.module.buffers()])
        return any(differ(*pair) for pair in zip(*after, strict=True))

    def weights(self) -> bool:
        """Does a forward pass change the weights?"""
        before = [each.detach().clone() for each in self.module.parameters()]
        with unchanged(self.module):
            self.losses(*self.batch)
            return any(map(differ, self.module.parameters(), before))

    def state(self) -> bool:
        """Do losses depend on which batch went before?"""
        after = []
        for batch in (self.batch, self.other):
            module = self.entry.module(torch.float64, self.seed)  # no memory of earlier trials
            for step in (batch, self.batch):
                torch.manual_seed(self.seed)
                losses = self.entry.losses(module, *(each.clone() for each in step))
            after.append(losses.detach())
        return differ(*after)

    def size(self) -> bool:
        """Have the first examples of a batch other losses without the rest?"""
        found = []
        for batch in (self.batch, [each[:3] for each in self.batch]):
            with unchanged(self.module):
                found.append(self.losses(*batch)[:3])
        return differ(*found)

    def place(self) -> bool:
        """Have the examples other losses in another order?"""
        order = torch.tensor([3, 0, 4, 2, 1])
        found = []
        for batch in (self.batch, [each[order] for each in self.batch]):
            with unchanged(self.module):
                found.append(self.losses(*batch))
        return differ(found[0][order], found[1])

    def traces(self) -> set[str]:
        if self.shape():
            return {"shape"}
        kinds = ["sum", "buffers", "weights", "state"]
        # With the size or the order of a batch its random numbers change too.
        kinds += [] if self.entry.random else ["size", "place"]
        return self.mixed() | {kind for kind in kinds if getattr(self, kind)()}


def test_the_battery_is_large_and_each_entry_has_its_name() -> None:
    assert len({entry.name for entry in ZOO}) == len(ZOO) >= 40
    assert {entry.refused for entry in REFUSED} == set(EVIDENCE)
    assert all(entry.notes.endswith(".") for entry in ZOO)
    assert not any(entry.refused and entry.may_refuse for entry in ZOO)


@pytest.mark.parametrize("entry", RIGHT, ids=lambda entry: entry.name)
def test_examples_of_a_right_module_do_not_mix(entry: Entry) -> None:
    assert Trial(entry, 0).traces() == set()


@pytest.mark.parametrize("entry", REFUSED, ids=lambda entry: entry.name)
def test_a_refused_module_is_wrong_for_its_reason(entry: Entry) -> None:
    wanted = set(EVIDENCE[entry.refused].split(" or "))
    # Some are wrong for some batches only; each seed is as good as the next.
    assert any(wanted & Trial(entry, seed).traces() for seed in range(20))


def test_a_rare_branch_shows_nothing_on_plain_inputs() -> None:
    entry = named("branch-seldom")
    trial = Trial(entry, 0)
    trial.batch = entry.batch(N, torch.float64, 0)
    trial.other = entry.batch(N, torch.float64, 1)
    assert trial.traces() == set()


@pytest.mark.parametrize("entry", RIGHT, ids=lambda entry: entry.name)
def test_the_loop_gives_what_each_example_adds_to_a_batch(entry: Entry) -> None:
    module, batch = entry.module(torch.float64), entry.batch(N, torch.float64)
    together = single_gradients(module, entry.losses, batch, seed=7)
    if not entry.random:
        alone = single_gradients(module, entry.losses, batch)
        assert alone.keys() == together.keys()
        assert not any(differ(alone[name], together[name]) for name in alone)
    silent = {name for name, each in together.items() if float(each.abs().max()) < 1e-12}
    assert silent == WITHOUT_GRADIENT.get(entry.name, set())


@pytest.mark.parametrize("entry", ZOO, ids=lambda entry: entry.name)
def test_module_and_batch_are_the_same_again(entry: Entry) -> None:
    one, two = entry.module(), entry.module()
    for (name, a), (again, b) in zip(one.named_parameters(), two.named_parameters(), strict=True):
        assert name == again
        assert torch.equal(a, b)
        assert torch.isfinite(a).all()
    assert any(each.requires_grad for each in one.parameters())
    batch, same = entry.batch(N), entry.batch(N)
    assert all(map(torch.equal, batch, same))
    assert {len(each) for each in batch} == {N}
    # The first dimension is the examples': a batch of one is a batch.
    assert {len(each) for each in entry.batch(1)} == {1}


# The oracle against gradients that are known


def test_gradients_of_a_line() -> None:
    module = nn.Sequential(nn.Sequential(nn.Linear(1, 1).double()))
    x = torch.tensor([3.0, 0.5, -2.0], dtype=torch.float64)
    single = single_gradients(module, lambda m, x: m(x)[:, 0], (x[:, None],))
    assert list(single) == ["0.0.weight", "0.0.bias"]
    assert torch.equal(single["0.0.weight"][:, 0, 0], x)
    assert torch.equal(single["0.0.bias"][:, 0], torch.ones(3, dtype=torch.float64))
    assert torch.allclose(norms(single), (x**2 + 1).sqrt(), rtol=1e-15)


def test_clipping_as_it_is_defined() -> None:
    single = {
        "a.weight": torch.tensor([[3.0], [0.3], [0.0]]),
        "a.bias": torch.tensor([[4.0], [0.0], [0.0]]),
        "b.weight": torch.tensor([[12.0], [0.4], [0.0]]),
    }
    flat = clipped_sum(single, "flat", 1.0)  # lengths 13, 0.5, 0
    assert flat["a.weight"].item() == pytest.approx(3 / 13 + 0.3)
    assert flat["a.bias"].item() == pytest.approx(4 / 13)
    assert flat["b.weight"].item() == pytest.approx(12 / 13 + 0.4)
    layers = clipped_sum(single, "per-layer", 1.0)  # each to 1 / sqrt 2; lengths 5, 12 and 0.3, 0.4
    assert layers["a.weight"].item() == pytest.approx(0.6 * math.sqrt(0.5) + 0.3)
    assert layers["a.bias"].item() == pytest.approx(0.8 * math.sqrt(0.5))
    assert layers["b.weight"].item() == pytest.approx(math.sqrt(0.5) + 0.4)
    automatic = clipped_sum(single, "automatic", 2.0)
    assert automatic["b.weight"].item() == pytest.approx(2 * (12 / 13.01 + 0.4 / 0.51))


@pytest.mark.parametrize(
    "name", ["counts-calls", "spectral-norm", "follows-its-weights", "remembers-in-a-buffer"]
)
def test_the_loop_leaves_the_module_as_it_was(name: str) -> None:
    entry = named(name)
    module, batch = entry.module(torch.float64), entry.batch(N, torch.float64)
    before = {key: value.clone() for key, value in module.state_dict().items()}
    single_gradients(module, entry.losses, batch)
    after = module.state_dict()
    assert all(torch.equal(after[key], before[key]) for key in before)
    entry.losses(module, *batch)  # which does move it
    assert any(not torch.equal(module.state_dict()[key], before[key]) for key in before)
