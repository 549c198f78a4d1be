"""The loop: its batches, sums, noise and division; what it refuses, and what it never tells."""

from __future__ import annotations

import copy
import math
import traceback
import warnings
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import oracle
import pytest
import torch
from scipy import stats
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset, TensorDataset
from trainings import COLUMNS, ROWS, Told, entropy, network, records, training, weights

from sordino.errors import InvalidArgument, PrivacyLeakWarning
from sordino.networks import PrivateTrainer, TrainingEnded
from sordino.networks.trainer import LogicalBatch
from sordino.privacy import Relation

SECRET = 73195.5
"""A number that stands in private rows, and in nothing that is said."""


def gradients_seen(trainer: PrivateTrainer) -> list[Tensor]:
    """A list that is filled with what the optimizer sees, step by step."""
    seen: list[Tensor] = []
    real = trainer.optimizer.step

    def step(*args: object, **kwargs: object) -> None:
        seen.append(torch.cat([each.grad.flatten().clone() for each in trained(trainer)]))
        real(*args, **kwargs)

    trainer.optimizer.step = step
    return seen


def trained(trainer: PrivateTrainer) -> list[Tensor]:
    return [each for each in trainer.module.parameters() if each.requires_grad]


def quiet(trainer: PrivateTrainer, values: float | None = 0.0) -> Told:
    """Replace the trainer's noise."""
    trainer._stream = Told(values)
    return trainer._stream


def told(act: Callable[[], object]) -> str:
    """Everything that is raised or warned, with all causes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(Exception) as error:  # noqa: PT011 - its words are what is tested
            act()
    lines = [str(each.message) for each in caught]
    # Source lines of this file may hold anything: the words of errors are what counts.
    each: BaseException | None = error.value
    while each is not None:
        lines.append("".join(traceback.format_exception_only(each)))
        each = None if each.__suppress_context__ and each.__cause__ is None else each.__context__
    return "\n".join(lines)


def run(trainer: PrivateTrainer) -> None:
    for batch in trainer:
        trainer.step(batch)


# The loop


def test_each_batch_once_and_in_order():
    trainer = training()
    assert len(trainer) == 6
    steps = []
    for batch in trainer:
        steps.append(batch.step)
        trainer.step(batch)
        with pytest.raises(InvalidArgument, match=r"^Expected batch="):
            trainer.step(batch)
    assert steps == list(range(6))
    with pytest.warns(UserWarning, match="^All 6 steps are done, and this loop does nothing"):
        assert list(trainer) == []


def test_a_batch_that_was_not_given_to_step_is_refused():
    loop = iter(training())
    next(loop)
    with pytest.raises(InvalidArgument, match=r"^Expected step=0 to be done before the next"):
        next(loop)


def test_a_loop_that_was_left_goes_on():
    trainer = training()
    for batch in trainer:
        trainer.step(batch)
        if batch.step == 2:
            break
    assert trainer.steps_done == 3
    assert [batch.step for batch in trainer if trainer.step(batch) is None] == [3, 4, 5]


@pytest.mark.parametrize("what", ["data", "number", "other trainer's"])
def test_other_batches_are_refused(what):
    trainer = training()
    batch = {"data": records(), "number": 0, "other trainer's": next(iter(training()))}[what]
    before = weights(trainer.module)
    with pytest.raises(InvalidArgument, match=r"^Expected batch=\[\w+\] to be of this trainer"):
        trainer.step(batch)
    assert torch.equal(weights(trainer.module), before)


def test_a_batch_does_not_tell_its_size():
    trainer = training()
    batch = next(iter(trainer))
    assert repr(batch) == "LogicalBatch(step=0)"
    assert not hasattr(batch, "__len__")
    assert trainer.step(batch) is None


def test_run_calls_a_scheduler_and_returns_the_guarantee():
    module = network()
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    trainer = training(module, optimizer=optimizer)
    quiet(trainer, 1.0)
    seen: list[int] = []

    def after(step: int) -> None:
        seen.append(step)
        scheduler.step()

    guarantee = trainer.run(after)
    assert seen == list(range(6))
    assert optimizer.param_groups[0]["lr"] == 0.5**3
    assert guarantee == trainer.guarantee()


def test_a_step_that_was_interrupted_counts():
    # Its noise may have been seen: done again, the same batch would be released twice.
    trainer = training()
    real = trainer.optimizer.step

    def interrupted(*args: object) -> None:
        real(*args)
        raise KeyboardInterrupt

    trainer.optimizer.step = interrupted
    with pytest.raises(KeyboardInterrupt):
        run(trainer)
    assert trainer.steps_done == 1
    trainer.optimizer.step = real
    run(trainer)
    assert trainer.steps_done == 6


def test_parts_that_are_called_by_hand_count_too():
    trainer = training()
    for step in range(3):
        trainer.apply(trainer.batch_sum(step))
    assert trainer.guarantee().epsilon > 0
    other = training(noise_multiplier=1.0)
    for batch in other:
        other.step(batch)
        if batch.step == 2:
            break
    assert trainer.guarantee().epsilon == other.guarantee().epsilon


# Sums


@pytest.mark.parametrize("clipping", ["flat", "per-layer", "automatic"])
@pytest.mark.parametrize("pieces", [1, 3, 7, 1000])
def test_pieces_give_the_sum_of_the_whole(pieces, clipping):
    X, y = records()
    data = X.double(), y
    how = {"clipping": clipping, "max_grad_norm": 0.3, "sample_rate": 0.6, "batch_size": 24}
    trainer = training(network(torch.float64), data=data, physical_batch=pieces, **how)
    assert trainer.physical_batch == pieces
    for step in range(3):
        places = trainer._batches.of(step)
        batch = tuple(each[torch.as_tensor(places)] for each in data)
        single = oracle.single_gradients(trainer.module, entropy, batch)
        wanted = oracle.clipped_sum(single, clipping, 0.3)
        found = trainer.batch_sum(step)
        assert found.examples == len(places)
        for name, each in wanted.items():
            # Sums of at most 40 vectors of norm 0.3 in another order.
            assert (found.sums[name] - each).abs().max() < 1e-12


def test_clipped_sum_is_the_sum_over_given_examples():
    X, y = records()
    trainer = training(network(torch.float64), data=(X.double(), y), physical_batch=7)
    some = X[:20].double(), y[:20]
    wanted = oracle.clipped_sum(oracle.single_gradients(trainer.module, entropy, some), "flat", 1.0)
    found = trainer.clipped_sum(some)
    assert found.examples == 20
    for name, each in wanted.items():
        assert (found.sums[name] - each).abs().max() < 1e-12


@pytest.mark.parametrize(
    ("how", "divisor"),
    [
        ({"batch_size": 8}, 8),
        ({"batch_size": 5, "sample_rate": 0.4}, 5),  # 16 records are expected, 5 divides
        ({"sampling": "allocation", "steps_per_epoch": 5}, 8),
        ({"relation": "add-or-remove-one", "sample_rate": 0.4, "batch_size": 11}, 11),
        ({"relation": "replace-one", "sample_rate": 0.4}, 16),
    ],
)
def test_sums_are_divided_by_a_public_number(how, divisor):
    module = network(torch.float64)
    X, y = records()
    trainer = training(
        *(module,), data=(X.double(), y), noise_multiplier=1.3, max_grad_norm=0.5, **how
    )
    stream, seen = quiet(trainer, None), gradients_seen(trainer)
    sizes, sums = set(), []
    for batch in trainer:
        found = trainer.batch_sum(batch.step)
        sizes.add(found.examples)
        sums.append(found.flat.clone())
        trainer.step(batch)
    assert len(sizes) > 1  # the batches differ in size, the divisor does not
    assert stream.scales == [1.3 * 0.5] * 6
    for gradient, total, noise in zip(seen, sums, stream.added, strict=True):
        wanted = (total + torch.as_tensor(noise)) / divisor
        assert (gradient - wanted).abs().max() < 1e-15


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_noise_has_the_scale_that_is_claimed(dtype):
    many, scale = 20_000, 1.7 * 0.5

    class Constant(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(many, dtype=dtype))
            self.other = nn.Parameter(torch.zeros(1, dtype=dtype))

    def losses(module: nn.Module, x: Tensor) -> Tensor:
        # All that is private is in `other`: the sum over `weight` is 0, and what is seen is noise.
        return x * module.other + 0 * module.weight.sum()

    module = Constant()
    trainer = training(
        *(module,),
        losses=losses,
        data=torch.ones(ROWS, dtype=dtype),
        optimizer=torch.optim.SGD(module.parameters(), lr=1.0),
        noise_multiplier=1.7,
        max_grad_norm=0.5,
        steps=2,
    )
    seen = gradients_seen(trainer)
    run(trainer)
    noise = [each[:many].double().numpy() * 8 / scale for each in seen]
    for each in noise:
        # bfloat16 has 8 bits: what is seen of a number is off by at most 1 / 256 of it.
        spread = (each**2).sum()
        low, high = stats.chi2.interval(1 - 1e-9, many)
        slack = 1.01 if dtype == torch.bfloat16 else 1.0
        assert low / slack < spread < high * slack
        assert abs(each.mean()) * math.sqrt(many) < 6
        if dtype != torch.bfloat16:
            assert stats.kstest(each, "norm").pvalue > 1e-9
    assert abs(np.corrcoef(noise)[0, 1]) * math.sqrt(many) < 6


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD(p, lr=0.5, momentum=0.9, weight_decay=0.01),
        lambda p: torch.optim.Adam(p, lr=0.05),
        lambda p: torch.optim.AdamW(p, lr=0.05, amsgrad=True),
        lambda p: torch.optim.RMSprop(p, lr=0.01),
    ],
    ids=["SGD", "Adam", "AdamW", "RMSprop"],
)
@pytest.mark.parametrize("sampling", ["poisson", "allocation"])
def test_without_noise_and_clip_it_is_the_optimizer_itself(make, sampling):
    X, y = records()
    X = X.double()
    module, plain = network(torch.float64), network(torch.float64)
    trainer = training(
        *(module,),
        data=(X, y),
        optimizer=make(module.parameters()),
        noise_multiplier=0,
        max_grad_norm=1e9,
        sampling=sampling,
        steps=20,
    )
    optimizer = make(plain.parameters())
    for batch in trainer:
        places = torch.as_tensor(trainer._batches.of(batch.step))
        trainer.step(batch)
        optimizer.zero_grad()
        (entropy(plain, X[places], y[places]).sum() / 8).backward()
        optimizer.step()
        # The same sums in another order, twenty steps of at most 0.5.
        assert (weights(module) - weights(plain)).abs().max() < 1e-10


# What it trains


def test_frozen_parameters_stay():
    module = network()
    module[0].requires_grad_(False)
    before = [each.detach().clone() for each in module.parameters()]
    run(training(module))
    after = list(module.parameters())
    assert [torch.equal(a, b) for a, b in zip(before, after, strict=True)] == [True] * 2 + [
        False
    ] * 2


def test_a_stale_gradient_of_a_frozen_parameter_is_not_applied():
    module = network()
    entropy(module, *records()).sum().backward()  # as if it had been trained before, on anything
    module[0].requires_grad_(False)
    before = module[0].weight.detach().clone()
    run(training(module))
    assert torch.equal(module[0].weight, before)


def test_a_gradient_from_elsewhere_is_not_applied():
    trainer = training()
    quiet(trainer)
    seen = gradients_seen(trainer)
    for batch in trainer:
        wanted = trainer.batch_sum(batch.step).flat / 8
        for each in trainer.module.parameters():
            each.grad = torch.full_like(each, 1e6)
        trainer.step(batch)
        assert torch.equal(seen[-1], wanted)
        assert all(each.grad is None for each in trainer.module.parameters())


@pytest.mark.parametrize("later", ["unfrozen", "frozen", "new group"])
def test_parameters_that_were_not_tried_are_refused(later):
    # Without this, an unfrozen layer would be trained on gradients without clip or noise.
    module = network()
    module[0].requires_grad_(later == "frozen")
    trainer = training(module)
    trainer.step(next(iter(trainer)))
    before = weights(module)
    if later == "new group":
        other = nn.Parameter(torch.zeros(2))
        trainer.optimizer.add_param_group({"params": [other]})
    else:
        module[0].requires_grad_(later == "unfrozen")
    with pytest.raises(InvalidArgument, match=r"^Expected (module|optimizer)=\["):
        trainer.step(next(iter(trainer)))
    assert torch.equal(weights(module), before)
    assert trainer.steps_done == 1


def test_another_mode_than_that_of_the_trial_is_refused():
    module = nn.Sequential(nn.Linear(COLUMNS, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    module.eval()
    trainer = training(module)
    trainer.step(next(iter(trainer)))
    module.train()  # as after every look at test data
    mean = module[1].running_mean.clone()
    with pytest.raises(InvalidArgument, match=r"mode it was tried in \(training=False\)"):
        trainer.step(next(iter(trainer)))
    assert torch.equal(module[1].running_mean, mean)
    module.eval()
    run(trainer)
    assert trainer.steps_done == 6


def test_dropout_draws_in_training_and_not_in_evaluation():
    for mode in (True, False):
        module = nn.Sequential(nn.Linear(COLUMNS, 64), nn.Dropout(0.5), nn.Linear(64, 2))
        module.train(mode)
        trainer = training(module)
        first, second = trainer.batch_sum(0).flat, trainer.batch_sum(0).flat
        assert torch.equal(first, second) is not mode
        assert module.training is mode


def test_constant_buffers_are_used_and_kept():
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("scale", torch.tensor([1.0, 2.0, 3.0]))
            self.inner = nn.Linear(COLUMNS, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x * self.scale)

    module = Scaled()
    trainer = training(module)
    total = trainer.batch_sum(0)
    plain = nn.Linear(COLUMNS, 2)
    plain.load_state_dict(module.inner.state_dict())
    X, y = records()
    places = torch.as_tensor(trainer._batches.of(0))
    single = oracle.single_gradients(plain, entropy, (X[places] * module.scale, y[places]))
    wanted = oracle.clipped_sum(single, "flat", 1.0)
    torch.testing.assert_close(total.sums["inner.weight"], wanted["weight"])
    run(trainer)
    assert module.scale.tolist() == [1, 2, 3]


# Data


class Listed(Dataset):
    """Records one at a time."""

    def __init__(self, *tensors: Tensor) -> None:
        self.tensors = tensors

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __getitem__(self, place: int) -> tuple[object, ...]:
        if not isinstance(place, int):
            raise TypeError(place)
        return tuple(each[place] for each in self.tensors)


class Numbers(Listed):
    """Inputs as arrays, labels as plain numbers, as usual datasets have them."""

    def __getitem__(self, place: int) -> tuple[object, ...]:
        return self.tensors[0][place].numpy(), int(self.tensors[1][place])


X, Y = records()


@pytest.mark.parametrize(
    "data",
    [
        (X, Y),
        [X, Y],
        (X.numpy(), Y.numpy()),
        TensorDataset(X, Y),
        Listed(X, Y),
        Numbers(X, Y),
        torch.utils.data.Subset(TensorDataset(X, Y), range(ROWS)),
    ],
    ids=["tensors", "list", "arrays", "TensorDataset", "Dataset", "numbers", "Subset"],
)
def test_all_kinds_of_data_give_the_same_sums(data):
    trainer = training(network(), data=data)
    places = torch.as_tensor(trainer._batches.of(0))
    wanted = training(network()).clipped_sum((X[places], Y[places]))
    torch.testing.assert_close(trainer.batch_sum(0).flat, wanted.flat)
    run(trainer)


class Endless(IterableDataset):
    def __iter__(self):
        return iter(zip(X, Y, strict=True))


class WithoutLength(Dataset):
    def __getitem__(self, place: int) -> tuple[Tensor, Tensor]:
        return X[place], Y[place]


class Dictionaries(Listed):
    def __getitem__(self, place: int) -> dict[str, Tensor]:
        return {"x": X[place]}


class Texts(Listed):
    def __getitem__(self, place: int) -> tuple[Tensor, str]:
        return X[place], f"{SECRET}"


@pytest.mark.parametrize(
    ("data", "condition"),
    [
        (Endless(), "to have a length"),
        (WithoutLength(), "to have a length"),
        (Dictionaries(X), "to give tensors"),
        (Texts(X), "to give tensors"),
        (Listed(X[:0]), "to hold a record"),
        ((X, Y[:-1]), "to have one length"),
        ((X[:0], Y[:0]), "to have one length"),
        ((), "to be tensors or a Dataset"),
        ("text", "to be tensors or a Dataset"),
        ({"x": X}, "to be tensors or a Dataset"),
        ((torch.tensor(1.0),), "to have an axis of records"),
    ],
    ids=lambda each: each.replace(" ", "-") if isinstance(each, str) else type(each).__name__,
)
def test_data_that_cannot_be_trained_on(data, condition):
    with pytest.raises(InvalidArgument, match=rf"^Expected data=.* {condition}") as caught:
        training(data=data)
    assert str(SECRET) not in str(caught.value)


# Optimizers


def test_optimizers_of_other_parameters_are_refused():
    module, other = network(), network(seed=1)
    missing = torch.optim.SGD(module[0].parameters(), lr=0.1)
    more = torch.optim.SGD([*module.parameters(), *other.parameters()], lr=0.1)
    foreign = torch.optim.SGD(other.parameters(), lr=0.1)
    newton = torch.optim.LBFGS(module.parameters())
    for optimizer, named in (
        (missing, r"\[without 2\.weight\]"),
        (foreign, r"\[without 0\.weight\]"),
        (more, r"\[4 more\]"),
        (newton, r"\[LBFGS\]"),
        ("SGD", r"\[str\]"),
    ):
        with pytest.raises(InvalidArgument, match=f"^Expected optimizer={named}"):
            training(module, optimizer=optimizer)


def test_a_module_without_parameters_is_refused():
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    with pytest.raises(InvalidArgument, match=r"parameter that requires a gradient"):
        training(nn.Tanh(), optimizer=optimizer)


# random_state


def seeded(seed: int, **how: object) -> PrivateTrainer:
    with pytest.warns(PrivacyLeakWarning, match="^Not private: random_state"):
        return training(random_state=seed, **how)


def test_random_state_repeats_and_promises_nothing():
    def end(seed: int) -> Tensor:
        trainer = seeded(seed)
        assert trainer.run() is None
        assert not trainer.private
        with pytest.raises(TrainingEnded, match=r"^Nothing is promised: random_state was given"):
            trainer.guarantee()
        return weights(trainer.module)

    assert torch.equal(end(3), end(3))
    assert not torch.equal(end(3), end(4))


def test_without_it_nothing_repeats():
    ends = []
    for _ in range(2):
        trainer = training()
        trainer.run()
        ends.append(weights(trainer.module))
    assert not (ends[0] == ends[1]).any()


def test_seeds_of_torch_and_numpy_change_nothing():
    noises = []
    for _ in range(2):
        torch.manual_seed(0)
        np.random.seed(0)  # noqa: NPY002 - what others do
        trainer = training()
        assert trainer._batches.key
        noises.append((trainer._batches.key, trainer._stream.standard_normal((5,)).tolist()))
    assert noises[0][0] != noises[1][0]
    assert noises[0][1] != noises[1][1]


def test_seeded_steps_have_noise_of_their_own():
    trainer = seeded(5, noise_multiplier=1.0)
    seen = gradients_seen(trainer)
    sums = []
    for batch in trainer:
        sums.append(trainer.batch_sum(batch.step).flat.clone())
        trainer.step(batch)
    noises = [8 * a - b for a, b in zip(seen, sums, strict=True)]
    assert all((a - b).abs().min() > 1e-4 for a, b in pairwise(noises))


def test_no_noise_promises_nothing():
    trainer = training(noise_multiplier=0)
    assert trainer.run() is None
    with pytest.raises(TrainingEnded, match=r"^Nothing is promised: there is no noise"):
        trainer.guarantee()


def test_the_guarantee_says_what_it_rests_on():
    trainer = training()
    before = trainer.guarantee()
    assert before.epsilon == 0
    trainer.step(next(iter(trainer)))
    one = trainer.guarantee()
    trainer.run()
    assert 0 < one.epsilon < trainer.guarantee().epsilon
    assert trainer.guarantee(1e-9).epsilon > trainer.guarantee(1e-3).epsilon
    said = " ".join(trainer.plan.proof(assumes=trainer.assumes).assumes)
    for each in ("float32", "ChaCha20", "poisson", "no examples meet"):
        assert each in said


# Bad input, and nothing that holds a cell


def marked() -> tuple[Tensor, Tensor]:
    x, y = records()
    x[7] = SECRET
    return x, y


def module_raising(when: Callable[[Tensor], bool]) -> nn.Module:
    class Raising(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(COLUMNS, 2)
            self.armed = False

        def forward(self, x: Tensor) -> Tensor:
            if self.armed and when(x):
                raise ValueError(f"cannot take {x.tolist()}")
            return self.inner(x)

    return Raising()


FULL = {"sample_rate": 1.0, "batch_size": ROWS}


def test_a_module_that_quotes_a_record():
    module = module_raising(lambda x: True)
    trainer = training(module, data=marked(), **FULL)
    module.armed = True
    said = told(lambda: run(trainer))
    assert "(ValueError); what it said is not quoted" in said
    assert "73195" not in said
    assert trainer.steps_done == 0


@pytest.mark.parametrize("mark", ["label", "input"])
def test_a_dataset_that_quotes_a_record(mark):
    class Quoting(Listed):
        def __getitem__(self, place: int) -> tuple[object, ...]:
            if place == 7:
                raise KeyError(f"{SECRET} of {self.tensors}")
            return super().__getitem__(place)

    trainer = training(data=Quoting(*marked()), **FULL)
    said = told(lambda: run(trainer))
    assert "The dataset failed (KeyError)" in said
    assert "73195" not in said


def test_a_dataset_whose_first_record_fails():
    class Quoting(Listed):
        def __getitem__(self, place: int) -> tuple[object, ...]:
            raise OSError(f"no file {SECRET}.png")

    said = told(lambda: training(data=Quoting(X, Y)))
    assert "The dataset failed (OSError)" in said
    assert "73195" not in said


@pytest.mark.parametrize("label", [-1, 2, 73195])
def test_labels_out_of_range(label):
    labels = Y.clone()
    labels[11] = label
    said = told(lambda: training(data=(X, labels)))
    assert said.startswith(
        "sordino.errors.InvalidArgument: Expected data=[whole numbers of tensor 1] to be within"
    )
    assert len(said.splitlines()) == 1
    assert f"{label}" not in said.replace("tensor 1", "").replace("from 0", "")


def test_indices_out_of_range():
    module = nn.Sequential(nn.Embedding(10, 4), nn.Flatten(), nn.Linear(8, 2))
    words = torch.randint(10, (ROWS, 2), generator=torch.Generator().manual_seed(0))
    words[3, 1] = 73195
    said = told(lambda: training(module, data=(words, Y), examples=(words[:6] % 10 * 0, Y[:6])))
    assert "to be within what the module takes" in said
    assert "73195" not in said


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_inputs_that_are_not_finite(value):
    x = marked()[0]
    x[3, 1] = value
    said = told(lambda: training(data=(x, Y)))
    assert "Expected data=[tensor 0] to hold finite numbers only" in said
    assert "73195" not in said


def test_nan_during_training_ends_it_with_a_sentence():
    def losses(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return entropy(module, x, y) + torch.log(10.0 - x[:, 0]) * module[0].weight[0, 0]

    trainer = training(losses=losses, data=marked(), **FULL)
    before = weights(trainer.module)
    said = told(lambda: run(trainer))
    assert "TrainingEnded: The gradients of step 0 are not finite. Lower" in said
    assert len(said.splitlines()) == 1
    assert torch.equal(weights(trainer.module), before)


def test_a_dataset_with_a_nan_ends_it_too():
    x, y = records()
    x[3, 1] = math.nan
    trainer = training(data=Listed(x, y), **FULL)
    with pytest.raises(TrainingEnded, match=r"not finite"):
        run(trainer)


def test_losses_that_change_their_shape_do_not_tell_the_size_of_a_batch():
    state = {"armed": False}

    def losses(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        found = entropy(module, x, y)
        return found.mean() if state["armed"] else found

    trainer = training(losses=losses, data=marked(), **FULL)
    state["armed"] = True
    said = told(lambda: run(trainer))
    assert "TrainingEnded" in said
    assert "losses did not return one loss for each example" in said
    assert "40" not in said


def test_a_module_that_takes_another_course_is_ended():
    class Turning(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(COLUMNS, 2), nn.Linear(COLUMNS, 2)
            self.armed = False

        def forward(self, x: Tensor) -> Tensor:
            if self.armed:
                return self.second(x) + self.first(x)
            return self.first(x) + self.second(x)

    module = Turning()
    trainer = training(module, engine="one-pass")
    module.armed = True
    said = told(lambda: run(trainer))
    assert "TrainingEnded" in said
    assert "otherwise than when it was tried" in said


@pytest.mark.parametrize(
    ("how", "named"),
    [
        ({"relation": "neighbours"}, "relation=neighbours"),
        ({"engine": "fast"}, "engine=fast"),
        ({"clipping": "global"}, "clipping=global"),
        ({"max_grad_norm": 0}, "max_grad_norm=0"),
        ({"physical_batch": 0}, "physical_batch=0"),
        ({"examples": (X[:2], Y[:2])}, "examples="),
        ({"sampling": "shuffle"}, "sampling=shuffle"),
    ],
)
def test_bad_settings_are_one_sentence(how, named):
    with pytest.raises(InvalidArgument, match=f"^Expected {named}") as caught:
        training(**how)
    assert "\n" not in str(caught.value)


def test_a_refused_training_leaves_the_module_as_it_was():
    module = network()
    before = copy.deepcopy(module.state_dict())
    labels = Y.clone()
    labels[11] = 9
    with pytest.raises(InvalidArgument):
        training(module, data=(X, labels))
    assert all(torch.equal(before[name], each) for name, each in module.state_dict().items())
    assert module.training
    assert all(each.grad is None for each in module.parameters())


def test_a_batch_beyond_the_plan_is_refused():
    trainer = training()
    trainer.run()
    with pytest.raises(InvalidArgument, match=r"^Expected batch=6"):
        trainer.step(LogicalBatch(6, trainer))


@pytest.mark.parametrize(
    ("losses", "told", "hint"),
    [
        (lambda m, x, y: entropy(m, x, y).mean(), "shape ()", "pass reduction='none'"),
        (lambda m, x, y: entropy(m, x, y)[:, None], "shape (6, 1)", "squeeze(1)"),
        (lambda m, x, y: m(x), "shape (6, 2)", "losses.flatten(1).mean(1)"),
        (lambda m, x, y: {"loss": entropy(m, x, y)}, "dict", "of shape (n,)"),
    ],
    ids=["mean", "column", "tokens", "dict"],
)
def test_losses_of_another_shape_are_told_how_to_be_one_each(losses, told, hint):
    with pytest.raises(InvalidArgument) as caught:
        training(losses=losses)
    assert f"=[{told} for 6 examples] to be one for each." in str(caught.value)
    assert hint in str(caught.value)


def test_data_of_another_type_than_the_module_are_not_taken_for_labels_out_of_range():
    with pytest.raises(InvalidArgument, match=r"^Expected data=\[float64, int64\].* \(float32\)"):
        training(data=(X.double(), Y))


def test_a_module_that_was_converted_is_refused_by_its_type():
    trainer = training()
    trainer.module.double()
    with pytest.raises(InvalidArgument, match=r"\[0\.weight: float64\] to be float32"):
        trainer.run()


def test_a_loader_and_a_batch_that_is_unpacked_are_told_what_to_do():
    with pytest.raises(InvalidArgument, match=r"Pass loader\.dataset"):
        training(data=torch.utils.data.DataLoader(TensorDataset(X, Y)))
    with pytest.raises(InvalidArgument, match=r"trainer\.step\(batch\)"):
        for _x, _y in training():
            pass


def test_what_is_kept_needs_a_place():
    with pytest.raises(InvalidArgument, match=r"also=.* only with checkpoint"):
        training(also={"scheduler": None})
    with pytest.raises(InvalidArgument, match=r"also=\[list\] to be a mapping"):
        training(also=[None])


@pytest.mark.parametrize("steps", [1, 200_000])
def test_a_hopeless_noise_is_told_and_no_other(steps):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        trainer = training(epsilon=3.0, steps=steps)
    hopeless = trainer.plan.noise_multiplier > trainer.plan.divisor
    assert hopeless is (steps > 1)
    assert [str(each.message).startswith("Little will be learned") for each in told] == (
        [True] if hopeless else []
    )


def test_one_example_at_a_time_is_told_unless_it_was_asked_for():
    def branching(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return entropy(module, x, y) * (2 if x.max() > 1e6 else 1)

    with pytest.warns(UserWarning, match="^Slow: gradients are made one example at a time"):
        assert training(losses=branching).engine == "one by one"
    assert training(losses=branching, engine="one-by-one").engine == "one by one"


@pytest.mark.parametrize("relation", list(Relation))
def test_a_guarantee_says_who_counted_rows_and_whether_delta_means_much(relation):
    trainer = training(network(), relation=relation, sample_rate=0.1, batch_size=8.0, delta=1e-5)
    next_batch = next(iter(trainer))
    trainer.step(next_batch)
    assert any("nobody counted rows per person" in each for each in trainer.guarantee().assumes)
    assert not trainer.guarantee(1e-9).not_covered
    # Of a private number of records nothing is told, not even whether delta is large for it.
    public = relation is not Relation.ADD_OR_REMOVE_ONE
    assert bool(trainer.guarantee(0.9 / len(X)).not_covered) is public
