"""Modules, numbers and callers that try to be trained without being clipped, or to tell of a record."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from sordino.errors import InvalidArgument
from sordino.networks.trial import choose

X = torch.randn(12, 8, generator=torch.Generator().manual_seed(0))
Y = torch.arange(12) % 2


def entropy(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return functional.cross_entropy(module(x), y, reduction="none")


class Does(nn.Module):
    """A linear layer, and whatever a function does with it."""

    def __init__(self, does) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 2)
        self.does = does

    def forward(self, x: Tensor) -> Tensor:
        return self.does(self, x)


def mixed(x: Tensor) -> Tensor:
    return x - x.mean(0)


# What a trial does not meet


def of_torch(self: Does, x: Tensor) -> Tensor:
    return self.linear(mixed(x) if torch.rand(()).item() < 0.5 else x)


def of_a_comparison(self: Does, x: Tensor) -> Tensor:
    return self.linear(mixed(x) if torch.rand(1) < 0.3 else x)


def of_a_whole_number(self: Does, x: Tensor) -> Tensor:
    return self.linear(mixed(x) if torch.randint(2, (1,)) else x)


def without_reading(self: Does, x: Tensor) -> Tensor:
    return self.linear(torch.where(torch.rand(()) < 0.4, mixed(x), x))


@pytest.mark.parametrize("does", [of_torch, of_a_comparison, of_a_whole_number, without_reading])
def test_examples_that_are_mixed_by_chance(does):
    with pytest.raises(InvalidArgument, match="not to mix examples"):
        choose(Does(does), entropy, (X, Y))


@pytest.mark.parametrize(
    "drawn",
    [
        lambda: torch.rand(()).item(),
        lambda: torch.rand(1) * 1.0,
        lambda: torch.distributions.Beta(5.0, 1.0).sample(),
        lambda: 1 - (torch.randint(10**6, (1,)) == 0).float(),
    ],
)
def test_chance_that_was_not_met_in_the_trial(drawn):
    module = Does(lambda self, x: self.linear(mixed(x) if drawn() < 1e-6 else x))
    assert choose(module, entropy, (X, Y)).engine.name == "one by one"


def test_chance_of_python():
    # Always the same branch, so that nothing but the generator itself tells.
    module = Does(lambda self, x: self.linear(mixed(x) if random.random() < 0 else x))
    assert choose(module, entropy, (X, Y)).engine.name == "one by one"


def test_dropout_is_no_course():
    module = nn.Sequential(nn.Linear(8, 4), nn.Dropout(0.5), nn.Linear(4, 2))
    assert choose(module, entropy, (X, Y)).engine.name == "one pass"


@pytest.mark.parametrize(
    "seldom",
    [
        lambda x: (x > 1e6).nonzero().shape[0],
        lambda x: len(x[x > 1e6]),
        lambda x: x[x > 1e6].numel(),
        lambda x: torch.masked_select(x, x > 1e6).size(0),
        lambda x: any(True for _ in (x > 1e6).nonzero()),
        lambda x: "inf" in f"{x * 1e30}",
    ],
)
def test_a_course_that_follows_how_much_is_selected(seldom):
    module = Does(lambda self, x: self.linear(mixed(x) if seldom(x) else x))
    assert choose(module, entropy, (X, Y)).engine.name == "one by one"


# What else would get a gradient, or keep a record

OTHER = nn.Linear(8, 2)


def beside_it(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return functional.cross_entropy(module(x) + OTHER(x), y, reduction="none")


def with_a_plain_tensor(weight: Tensor):
    def losses(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return functional.cross_entropy(module(x) + x @ weight, y, reduction="none")

    return losses


@pytest.mark.parametrize(
    "losses", [beside_it, with_a_plain_tensor(torch.zeros(8, 2, requires_grad=True))]
)
def test_a_gradient_of_what_is_not_in_the_module(losses):
    with pytest.raises(InvalidArgument, match=r"\[a tensor \((2, 8|8, 2)\).*to give no gradient"):
        choose(nn.Linear(8, 2), losses, (X, Y))


def test_the_module_itself_beside_the_one_that_is_given():
    module = nn.Linear(8, 2)

    def losses(given: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return functional.cross_entropy(given(x) + module(x), y, reduction="none")

    with pytest.raises(InvalidArgument, match="to give no gradient"):
        choose(module, losses, (X, Y))


def test_a_frozen_teacher_and_a_gradient_of_inputs_are_no_others():
    teacher = nn.Linear(8, 2).requires_grad_(False)

    def losses(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        x = x.requires_grad_()
        slope = torch.autograd.grad(module(x).square().sum(), x, create_graph=True)[0]
        return (module(x) - teacher(x)).square().sum(1) + slope.square().sum(1)

    assert choose(nn.Linear(8, 2), losses, (X, Y)).engine.name != "one pass"


def keeps_inputs(self: Does, x: Tensor) -> Tensor:
    self.last = x.detach()
    return self.linear(x)


def keeps_a_list(self: Does, x: Tensor) -> Tensor:
    self.__dict__.setdefault("seen", []).append({"x": x.detach()})
    return self.linear(x)


def keeps_an_array(self: Does, x: Tensor) -> Tensor:
    self.linear.last = x.detach().numpy()
    return self.linear(x)


def keeps_a_number(self: Does, x: Tensor) -> Tensor:
    self.mean = x.mean().item()
    return self.linear(x)


@pytest.mark.parametrize("does", [keeps_inputs, keeps_a_list, keeps_an_array, keeps_a_number])
def test_an_attribute_that_keeps_what_was_seen(does):
    with pytest.raises(InvalidArgument, match="to keep nothing of its inputs"):
        choose(Does(does), entropy, (X, Y))


def test_a_cache_that_is_no_record():
    def caches(self: Does, x: Tensor) -> Tensor:
        self.scale = torch.arange(x.shape[1], dtype=x.dtype)
        return self.linear(x * self.scale)

    assert choose(Does(caches), entropy, (X, Y)).engine.name == "one pass"
