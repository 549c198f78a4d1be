"""Modules and numbers that try to be trained without being clipped, or to tell of a record."""

from __future__ import annotations

import math
import random
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from sordino.errors import InvalidArgument
from sordino.networks import PrivateTrainer
from sordino.networks.clipping import Clipping
from sordino.networks.gradients import ModuleTask, OneByOne, OnePass
from sordino.networks.trial import choose
from sordino.networks.uses import Placement, Product, Single, View, together

X = torch.randn(12, 8, generator=torch.Generator().manual_seed(0))
Y = torch.arange(12) % 2


def entropy(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return functional.cross_entropy(module(x), y, reduction="none")


def trained(module: nn.Module, losses: Any = entropy, **more: Any) -> PrivateTrainer:
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    return PrivateTrainer(
        module, optimizer, losses, (X, Y), noise_multiplier=1.0, batch_size=6, steps=2, **more
    )


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


# Numbers that would be longer than their norms say


class Scales(nn.Module):
    """Many parameters of one number each, all with the same gradient."""

    def __init__(self, many: int) -> None:
        super().__init__()
        self.each = nn.ParameterList(torch.zeros(1, 1) for _ in range(many))

    def forward(self, x: Tensor) -> Tensor:
        return sum(functional.linear(x, each) for each in self.each)[:, 0]


def itself(module: nn.Module, x: Tensor) -> Tensor:
    return module(x)


def length(sums: dict[str, Tensor]) -> float:
    return float(torch.stack([each.double().square().sum() for each in sums.values()]).sum().sqrt())


@pytest.mark.parametrize("engine", ["one pass", "one by one"])
def test_many_equal_squares_in_few_bits(engine):
    # In bfloat16 256 + 1 is 256: the norm of 600 equal parts was that of 256.
    task = ModuleTask.of(Scales(600).bfloat16(), itself)
    # Not tried first: that takes long for so many.
    layouts = [(("linear", (name,)), Placement()) for name in task.parameters]
    made = OnePass(task, layouts) if engine == "one pass" else OneByOne(task)
    sums = made.clipped((torch.full((1, 1), 3.0).bfloat16(),), Clipping("flat", 1.0))
    assert length(sums) == pytest.approx(1, abs=1e-2)
    assert length(sums) <= 1 + 1e-6


@pytest.mark.parametrize("engine", ["one-pass", "torch.func", "one-by-one"])
def test_one_more_record_moves_a_large_sum_in_few_bits_by_no_more_than_the_norm(engine):
    module = nn.Linear(1, 1, bias=False).bfloat16()
    tried = choose(module, lambda m, x: m(x)[:, 0], (torch.rand(6, 1).bfloat16(),), engine)
    ones = torch.ones(300, 1).bfloat16()
    moved = [tried.engine.clipped((ones[:n],), Clipping("flat", 1.0))["weight"] for n in (299, 300)]
    # 300 sums of float32 are off by at most so many units of the last place of 512.
    assert 0.9 < float(moved[1] - moved[0]) <= 1 + 300 * 2**-15


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sums_of_few_bits_are_refused(dtype):
    with pytest.raises(InvalidArgument, match=r"float32 or torch\.float64"):
        trained(nn.Linear(8, 2), dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sums_of_more_bits(dtype):
    trainer = trained(nn.Sequential(nn.Linear(8, 4), nn.LayerNorm(4), nn.Linear(4, 2)), dtype=dtype)
    trainer.run()
    assert f"sums {dtype}".replace("torch.", "") in trainer.assumes[3]


def test_a_forward_pass_under_autocast():
    def losses(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            made = module(x)
        return functional.cross_entropy(made.float(), y, reduction="none")

    module = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
    trainer = trained(module, losses=losses)
    assert trainer.engine == "one pass"
    trainer.run()


def cancelling(examples: int) -> tuple[Tensor, Tensor]:
    """Inputs and gradients whose products over places cancel but for rounding."""
    seed = torch.Generator().manual_seed(0)
    inputs = torch.randn(examples, 16, 64, generator=seed)
    back = torch.randn(examples, 16, 64, generator=seed) * 1e8
    return torch.cat([inputs, inputs], 1), torch.cat([back, -back.roll(1, 2).roll(-1, 2)], 1)


WEIGHT = View("weight", (64, 64), (64, 1), 0)


@pytest.mark.parametrize("examples", [4, 1100])
def test_places_that_cancel(examples):
    # 1100 single gradients are not kept: the sum is made anew, and cancels otherwise.
    use = Product(WEIGHT, *cancelling(examples))
    factors = Clipping("flat", 1.0).factors(use.squares().sqrt()[:, None])[:, 0]
    assert (use._made is None) == (examples == 1100)
    for place in range(4):
        alone = torch.zeros(examples)
        alone[place] = factors[place]
        assert float(use.total(alone).norm()) <= 1 + 1e-6


def test_uses_of_one_parameter_that_cancel():
    inputs, back = cancelling(3)
    each = torch.bmm(back[:, :16].transpose(1, 2), inputs[:, :16])
    uses = [Product(WEIGHT, inputs[:, :16], back[:, :16]), Single(WEIGHT, -each)]
    (use,) = together(uses, WEIGHT)
    factors = Clipping("flat", 1.0).factors(use.squares().sqrt()[:, None])[:, 0]
    weights = torch.zeros(3)
    weights[0] = factors[0]
    assert float(use.total(weights).norm()) <= 1 + 1e-6


@pytest.mark.parametrize("norm", [1e-30, 1e30])
def test_lengths_whose_squares_are_no_numbers(norm):
    with pytest.raises(InvalidArgument, match="max_grad_norm"):
        trained(nn.Linear(8, 2), max_grad_norm=norm)


class Parts(nn.Module):
    """Two parameters in one piece of memory, the later one first."""

    def __init__(self) -> None:
        super().__init__()
        memory = torch.randn(16, 8, generator=torch.Generator().manual_seed(0))
        self.later, self.between = nn.Parameter(memory[8:]), nn.Parameter(torch.zeros(64))
        self.first = nn.Parameter(memory[:8])

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.first.t() + 2 * (x @ self.later.t()) + x * self.between[:8]


def test_parameters_in_one_piece_of_memory():
    module = Parts()  # a copy, as the trial makes, has two pieces
    engine = choose(module, entropy, (X, Y)).engine
    assert engine.name == "one pass"
    wanted = OneByOne(engine.task).single((X, Y))
    for name, each in engine.single((X, Y)).items():
        torch.testing.assert_close(each, wanted[name])


# What is proved, when


def test_what_is_proved_before_the_first_step_and_beyond_the_last():
    trainer = trained(nn.Linear(8, 2))
    assert trainer.guarantee().epsilon == 0
    trainer.run()
    planned = trainer.guarantee()
    assert planned.epsilon == pytest.approx(trainer.plan.proof().guarantee(planned.delta).epsilon)
    trainer.apply(trainer.batch_sum(0))  # by hand: it is counted all the same
    assert trainer.guarantee().epsilon > planned.epsilon
    assert trainer.guarantee(0).epsilon == math.inf
    assert not list(trainer)


def test_what_a_failure_tells_is_assumed_not_to_happen():
    assert any(
        "no record makes the module fail" in each for each in trained(nn.Linear(8, 2)).assumes
    )


def test_a_warning_that_tells_the_size_of_a_batch(recwarn):
    armed: list[bool] = []

    def losses(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        if armed:
            warnings.warn(f"{len(x)} examples", UserWarning, stacklevel=1)
        return entropy(module, x, y)

    trainer = trained(nn.Linear(8, 2), losses=losses)
    armed.append(True)
    trainer.run()
    assert not [each for each in recwarn if "examples" in str(each.message)]


def test_draws_of_the_module_where_one_record_more_moves_the_others():
    module = nn.Sequential(nn.Linear(8, 2), nn.Dropout())
    assumes = trained(module, relation="add-or-remove-one", sample_rate=0.5, delta=1e-5).assumes
    assert any("dropout" in each for each in assumes)
