"""The accountant inside the real Opacus, and beside Opacus' own accountants."""

from __future__ import annotations

import io
import json
import math
import warnings
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

from sordino.accounting import dp_sgd
from sordino.accounting.interop import Accountant, AllocationAccountant, allocation_accountant
from sordino.errors import InvalidArgument
from sordino.privacy import Relation
from sordino.sgd import AllocationSampler

# Opacus warns about its own insecure random numbers, about torch's hooks and about its optimizers.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def opacus(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Opacus with our accountant registered, for the length of one test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as above, also while importing
        module = pytest.importorskip("opacus")
        from opacus.accountants import register_accountant, registry
    monkeypatch.setattr(registry, "_ACCOUNTANTS", dict(registry._ACCOUNTANTS))
    register_accountant(Accountant.mechanism(), Accountant)
    return module


def parts(records: int = 64, batch: int = 8) -> tuple[Any, Any, Any]:
    import torch

    model = torch.nn.Linear(3, 1)
    data = torch.utils.data.TensorDataset(torch.randn(records, 3), torch.randn(records, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, optimizer, torch.utils.data.DataLoader(data, batch_size=batch)


def train(model: Any, optimizer: Any, loader: Any, epochs: int, accumulate: int = 1) -> None:
    for _ in range(epochs):
        for index, (x, y) in enumerate(loader, start=1):
            (model(x) - y).square().mean().backward()
            if index % accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()


def poisson(noise: float, rate: float, steps: int, delta: float) -> float:
    profile = dp_sgd.pld(
        noise, rate, steps, sampling="poisson", relation=Relation.ADD_OR_REMOVE_ONE
    )
    return profile.epsilon(delta)


def test_training_with_opacus_spends_what_subsampled_says(opacus: ModuleType) -> None:
    engine = opacus.PrivacyEngine(accountant="sordino")
    model, optimizer, loader = parts()
    settings = {"module": model, "optimizer": optimizer, "data_loader": loader}
    private = engine.make_private(**settings, noise_multiplier=1.3, max_grad_norm=1.0)
    train(*private, epochs=3)
    assert len(engine.accountant) == 24
    assert engine.accountant.history == [(1.3, 1 / 8, 24)]
    assert engine.get_epsilon(1e-5) == poisson(1.3, 1 / 8, 24, 1e-5)


@pytest.mark.parametrize(("n", "batch"), [(1797, 32), (100, 99), (120, 30)])
def test_opacus_samples_at_one_over_the_length_of_the_loader(opacus, n: int, batch: int) -> None:
    """As `sordino account` says it does, where batch size / records would be another rate."""
    loader = parts(n, batch)[-1]
    made = opacus.data_loader.DPDataLoader.from_data_loader(loader)
    assert made.sample_rate == 1 / math.ceil(n / batch)


def test_opacus_calibrates_with_it(opacus: ModuleType) -> None:
    engine = opacus.PrivacyEngine(accountant="sordino")
    model, optimizer, loader = parts()
    settings = {"module": model, "optimizer": optimizer, "data_loader": loader}
    private = engine.make_private_with_epsilon(
        **settings, target_epsilon=2.0, target_delta=1e-5, epochs=2, max_grad_norm=1.0
    )
    train(*private, epochs=2)
    assert 1.98 <= engine.get_epsilon(1e-5) <= 2.0


def test_a_checkpoint_resumes_with_its_spent_budget(opacus: ModuleType) -> None:
    file = io.BytesIO()
    first = opacus.PrivacyEngine(accountant="sordino")
    model, optimizer, loader = parts()
    settings = {"module": model, "optimizer": optimizer, "data_loader": loader}
    private = first.make_private(**settings, noise_multiplier=1.0, max_grad_norm=1.0)
    train(*private, epochs=1)
    first.save_checkpoint(path=file, module=private[0], optimizer=private[1])

    second = opacus.PrivacyEngine(accountant="sordino")
    model, optimizer, loader = parts()
    settings = {"module": model, "optimizer": optimizer, "data_loader": loader}
    private = second.make_private(**settings, noise_multiplier=1.0, max_grad_norm=1.0)
    file.seek(0)
    second.load_checkpoint(path=file, module=private[0], optimizer=private[1])
    assert second.get_epsilon(1e-5) == first.get_epsilon(1e-5)
    train(*private, epochs=1)
    assert second.get_epsilon(1e-5) == poisson(1.0, 1 / 8, 16, 1e-5)


def test_accumulated_batches_are_shares_of_one_noise(opacus: ModuleType) -> None:
    engine = opacus.PrivacyEngine(accountant="sordino")
    model, optimizer, loader = parts()
    settings = {"module": model, "optimizer": optimizer, "data_loader": loader}
    # The one way in which Opacus lets gradients accumulate.
    settings["poisson_sampling"] = False
    private = engine.make_private(**settings, noise_multiplier=1.0, max_grad_norm=1.0)
    train(*private, epochs=1, accumulate=4)
    assert engine.accountant.history == [(0.5, 1 / 8, 8)]


def test_accumulated_batches_are_covered_and_one_of_twice_the_rate_is_too_little() -> None:
    noise, rate, batches = 1.0, 0.25, 2
    accountant = Accountant()
    optimizer = SimpleNamespace(noise_multiplier=noise, accumulated_iterations=batches)
    accountant.get_optimizer_hook_fn(rate)(optimizer)
    one_batch = dp_sgd.pld(
        noise, rate * batches, 1, sampling="poisson", relation=Relation.ADD_OR_REMOVE_ONE
    )
    # A record is in 0, 1 or 2 of the batches: the exact delta of that mixture, by quadrature.
    x = np.linspace(-12, 14, 200_001)
    with_it = sum(
        binom.pmf(met, batches, rate) * norm.pdf(x, met, noise) for met in range(batches + 1)
    )
    for epsilon in (0.5, 1.0, 2.0, 4.0):
        gain = np.maximum(with_it - math.exp(epsilon) * norm.pdf(x, 0, noise), 0)
        exact = float(np.sum(gain) * (x[1] - x[0]))
        assert exact <= accountant.profile().delta(epsilon)
        assert exact > 1.05 * one_batch.delta(epsilon)


def test_history_is_merged_like_opacus_merges_it(opacus: ModuleType) -> None:
    from opacus.accountants import PRVAccountant

    ours, theirs = Accountant(), PRVAccountant()
    for noise, rate in [(1.0, 0.1), (1.0, 0.1), (1.0, 0.2), (2.0, 0.2), (1.0, 0.1), (1.0, 0.1)]:
        ours.step(noise_multiplier=noise, sample_rate=rate)
        theirs.step(noise_multiplier=noise, sample_rate=rate)
    assert ours.history == theirs.history
    assert len(ours) == 6


def test_different_steps_compose_one_batch_prv_says(opacus: ModuleType) -> None:
    from opacus.accountants import PRVAccountant

    ours, theirs = Accountant(), PRVAccountant()
    ours.history = theirs.history = [(1.0, 0.01, 300), (1.5, 0.02, 200), (0.9, 0.005, 100)]
    upper = theirs.get_epsilon(1e-5, eps_error=0.01)
    assert upper - 0.021 <= ours.get_epsilon(1e-5) <= upper


def test_the_order_of_steps_does_not_matter() -> None:
    mixed, sorted_ = Accountant(), Accountant()
    mixed.history = [(1.0, 0.01, 50), (2.0, 0.05, 10), (1.0, 0.01, 50)]
    sorted_.history = [(1.0, 0.01, 100), (2.0, 0.05, 10)]
    assert mixed.get_epsilon(1e-5) == sorted_.get_epsilon(1e-5) > poisson(1.0, 0.01, 100, 1e-5)


def test_two_hundred_settings_lie_between_twenty_milder_and_twenty_harsher() -> None:
    noises = np.linspace(1.0, 1.5, 200)
    accountant, milder, harsher = Accountant(), Accountant(), Accountant()
    for noise in noises:
        accountant.step(noise_multiplier=noise, sample_rate=0.02)
    assert len(accountant.history) == 200
    harsher.history = [(noise, 0.02, 10) for noise in noises[::10]]
    milder.history = [(noise, 0.02, 10) for noise in noises[9::10]]
    low, high = milder.get_epsilon(1e-5), harsher.get_epsilon(1e-5)
    assert low < accountant.get_epsilon(1e-5) < high < 1.07 * low


def test_settings_of_other_accountants_change_nothing() -> None:
    accountant = Accountant()
    accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    assert accountant.get_epsilon(1e-5, eps_error=5.0, alphas=[2]) == accountant.get_epsilon(1e-5)


def test_nothing_spends_nothing_and_no_noise_spends_everything() -> None:
    accountant = Accountant()
    assert len(accountant) == 0
    assert accountant.get_epsilon(1e-5) == 0
    accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    accountant.step(noise_multiplier=0.0, sample_rate=0.1)
    assert accountant.get_epsilon(1e-5) == math.inf


@pytest.mark.parametrize(
    ("noise", "rate", "named"),
    [(-1.0, 0.1, "noise_multiplier=-1.0"), (1.0, 1.5, "sample_rate=1.5"), (1.0, 0.0, "rate=0.0")],
)
def test_a_step_that_cannot_be_is_refused(noise: float, rate: float, named: str) -> None:
    accountant = Accountant()
    with pytest.raises(InvalidArgument, match=named):
        accountant.step(noise_multiplier=noise, sample_rate=rate)
    assert accountant.history == []


def test_state_goes_through_json_and_back() -> None:
    accountant, resumed = Accountant(), Accountant()
    for noise in (np.float64(1.1), 1.1, np.float32(0.7)):
        accountant.step(noise_multiplier=noise, sample_rate=0.01)
    state = accountant.state_dict()
    assert state["schema"] == 1
    assert state["relation"] == "add-or-remove-one"
    assert state["sampling"] == "poisson"
    resumed.load_state_dict(json.loads(json.dumps(state)))
    assert resumed.history == accountant.history
    assert resumed.get_epsilon(1e-6) == accountant.get_epsilon(1e-6)
    resumed.step(noise_multiplier=0.7, sample_rate=0.01)
    assert accountant.history != resumed.history
    assert state["history"] == [[1.1, 0.01, 2], [float(np.float32(0.7)), 0.01, 1]]


def test_state_is_put_where_asked() -> None:
    place: dict[str, Any] = {"kept": 1}
    assert Accountant().state_dict(place) is place
    assert place["kept"] == 1
    assert place["mechanism"] == "sordino"


def state(**changes: Any) -> dict[str, Any]:
    return {**Accountant().state_dict(), "history": [[1.0, 0.1, 3]], **changes}


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        (None, "state_dict=None"),
        ({}, "filled"),
        (state(mechanism="rdp"), "mechanism.*=rdp to be sordino"),
        (state(schema=2), "schema.*=2 to be 1"),
        (state(relation="replace-one"), "relation.*to be add-or-remove-one"),
        (state(sampling="shuffle"), "sampling.*to be poisson"),
        (state(history=None), "history"),
        (state(history=[[1.0, 0.1]]), "three numbers"),
        (state(history=[7]), "history"),
        (state(history=[[1.0, 2.0, 3]]), "sample_rate=2.0"),
        (state(history=[[1.0, 0.5, 1.5]]), "steps=1.5"),
        (state(history=[["1", 0.5, 1]]), "noise_multiplier"),
    ],
)
def test_a_wrong_state_is_refused_and_changes_nothing(bad: Any, named: str) -> None:
    accountant = Accountant()
    accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    with pytest.raises(InvalidArgument, match=named):
        accountant.load_state_dict(bad)
    assert accountant.history == [(1.0, 0.1, 1)]


def allocation(noise: float, steps_per_epoch: int, epochs: int, delta: float = 1e-5) -> float:
    how: dict[str, Any] = {"sampling": "allocation", "relation": Relation.ADD_OR_REMOVE_ONE}
    steps = steps_per_epoch * epochs
    run = dp_sgd.pld(noise, 1 / steps_per_epoch, steps, steps_per_epoch=steps_per_epoch, **how)
    return run.epsilon(delta)


def allocated(opacus: ModuleType, records: int, steps: int, noise: float) -> tuple[Any, ...]:
    """An engine with its model, optimizer, loader, and the indices of all batches drawn so far."""
    import torch
    from opacus.accountants import register_accountant
    from opacus.data_loader import wrap_collate_with_empty

    sampler = AllocationSampler(records, steps)
    register_accountant("sordino-allocation", allocation_accountant(sampler), force=True)
    model, optimizer, loader = parts(records)
    seen: list[list[int]] = []
    data = torch.utils.data.TensorDataset(*loader.dataset.tensors, torch.arange(records))
    collate = wrap_collate_with_empty(
        collate_fn=torch.utils.data.default_collate,
        sample_empty_shapes=[(0, *column.shape[1:]) for column in data.tensors],
        dtypes=[column.dtype for column in data.tensors],
    )

    def noting(batch: Any) -> Any:
        *columns, index = collate(batch)
        seen.append(index.tolist())
        return columns

    loader = torch.utils.data.DataLoader(data, batch_sampler=sampler, collate_fn=noting)
    engine = opacus.PrivacyEngine(accountant="sordino-allocation")
    private = engine.make_private(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        noise_multiplier=noise,
        max_grad_norm=1.0,
        poisson_sampling=False,
    )
    return engine, *private, seen


def test_opacus_trains_with_a_loader_that_allocates(opacus: ModuleType) -> None:
    engine, model, optimizer, loader, seen = allocated(opacus, records=20, steps=16, noise=1.3)
    train(model, optimizer, loader, epochs=3)
    assert len(engine.accountant) == len(seen) == 48
    for epoch in (seen[:16], seen[16:32], seen[32:]):
        assert sorted(index for batch in epoch for index in batch) == list(range(20))
    assert [] in seen  # 16 batches are all filled with probability 1e-3, three times never
    assert seen[:16] != seen[16:32]
    assert engine.get_epsilon(1e-5) == allocation(1.3, 16, 3)
    assert all(bool(p.isfinite().all()) for p in model.parameters())
    # It is made from the number of records: a public one must take its place.
    assert optimizer.expected_batch_size == 20 // 16


def test_a_checkpoint_of_an_allocation_resumes(opacus: ModuleType) -> None:
    file = io.BytesIO()
    first, model, optimizer, loader, _ = allocated(opacus, 12, 3, noise=2.0)
    train(model, optimizer, loader, epochs=2)
    first.save_checkpoint(path=file, module=model, optimizer=optimizer)
    second, model, optimizer, loader, _ = allocated(opacus, 12, 3, noise=2.0)
    file.seek(0)
    second.load_checkpoint(path=file, module=model, optimizer=optimizer)
    train(model, optimizer, loader, epochs=1)
    assert second.get_epsilon(1e-5) == allocation(2.0, 3, 3)


def test_opacus_with_another_loader_is_refused(opacus: ModuleType) -> None:
    import torch

    _, model, optimizer, loader, _ = allocated(opacus, 12, 3, noise=2.0)
    with pytest.raises(InvalidArgument, match="accumulated_iterations=3"):
        train(model, optimizer, loader, epochs=1, accumulate=3)
    other = torch.utils.data.DataLoader(loader.dataset, batch_size=4)
    optimizer.zero_grad()
    _, model, optimizer, loader, _ = allocated(opacus, 12, 3, noise=2.0)
    with pytest.raises(InvalidArgument, match=r"sampler\.epoch=0"):
        train(model, optimizer, ((x, y) for x, y, _ in other), epochs=1)


def spent(noises: list[list[float]], steps: int = 4) -> AllocationAccountant:
    """After epochs of these noises, some of them broken off."""
    sampler = AllocationSampler(records=7, steps_per_epoch=steps)
    accountant = allocation_accountant(sampler)()
    for epoch in noises:
        iter(sampler)
        for noise in epoch:
            accountant.step(noise_multiplier=noise, sample_rate=1 / steps)
    return accountant


def test_every_epoch_begun_counts_as_whole() -> None:
    """Four epochs broken off after one step may meet a record four times."""
    assert spent([[2.0]] * 4).get_epsilon(1e-5) == allocation(2.0, 4, 4)
    assert spent([[2.0] * 4, [2.0] * 3]).get_epsilon(1e-5) == allocation(2.0, 4, 2)
    assert len(spent([[2.0] * 4, [2.0] * 3])) == 7
    assert spent([]).get_epsilon(1e-5) == 0


def test_epochs_that_are_drawn_by_turns_all_count() -> None:
    """Two loaders on one sampler: their steps may both hold a record, though few are taken."""
    sampler = AllocationSampler(records=7, steps_per_epoch=4)
    list(sampler)  # before there is an accountant
    accountant = allocation_accountant(sampler)()
    for batches in [*map(iter, (sampler, sampler))] * 2:
        next(batches)
        accountant.step(noise_multiplier=2.0, sample_rate=0.25)
    assert accountant.get_epsilon(1e-5) >= allocation(2.0, 4, 2)
    assert len(accountant) == 4
    resumed = allocation_accountant(sampler)()
    resumed.load_state_dict(accountant.state_dict())
    assert resumed.get_epsilon(1e-5) == accountant.get_epsilon(1e-5)
    resumed.step(noise_multiplier=2.0, sample_rate=0.25)
    assert resumed.get_epsilon(1e-5) >= allocation(2.0, 4, 3)


def test_an_epoch_of_several_noises_has_the_least() -> None:
    mixed = spent([[3.0, 2.0, 5.0, 3.0], [5.0] * 4])
    assert mixed.history == [(2.0, 0.25, 4), (5.0, 0.25, 4)]
    assert allocation(2.0, 4, 1) < mixed.get_epsilon(1e-5) < allocation(2.0, 4, 2)


def test_an_allocation_that_cannot_be_is_refused() -> None:
    accountant = spent([[2.0] * 4])
    with pytest.raises(InvalidArgument, match="steps=5"):
        accountant.step(noise_multiplier=2.0, sample_rate=0.25)
    for rate in (0.2, 0.2500001, 1.0):
        with pytest.raises(InvalidArgument, match="to be 1 / 4"):
            accountant.step(noise_multiplier=2.0, sample_rate=rate)
    assert accountant.history == [(2.0, 0.25, 4)]
    with pytest.raises(InvalidArgument, match="AllocationSampler"):
        allocation_accountant(4)  # type: ignore[arg-type]


def test_the_state_of_an_allocation_goes_through_json_and_back() -> None:
    accountant = spent([[2.0] * 4, [3.0] * 2])
    state = json.loads(json.dumps(accountant.state_dict()))
    assert (state["sampling"], state["steps_per_epoch"]) == ("allocation", 4)
    resumed = spent([])
    resumed.load_state_dict(state)
    assert resumed.get_epsilon(1e-5) == accountant.get_epsilon(1e-5)
    for other in (spent([], steps=5), Accountant()):
        with pytest.raises(InvalidArgument, match="state_dict"):
            other.load_state_dict(state)
