"""Modules that nobody should have to think of: each is served, or refused in one sentence."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody gives it
from torch import Tensor, nn
from zoo.parts import Net, cross_entropy

from sordino.errors import InvalidArgument
from sordino.networks import PrivateTrainer
from sordino.networks.trial import choose

X = torch.randn(8, 6, generator=torch.Generator().manual_seed(0))
Y = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])


class _Wordless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def line() -> nn.Module:
    return nn.Linear(6, 3)


def raising(error: Exception) -> Callable[[], nn.Module]:
    def forward(m: Any, x: Tensor) -> Tensor:
        raise error

    return lambda: Net(forward, body=line())


def doing(what: Callable[[Any], Any]) -> Callable[[], nn.Module]:
    """A module that does something with itself at every call."""

    def forward(m: Any, x: Tensor) -> Tensor:
        what(m)
        return m.body(x)

    return lambda: Net(forward, body=line())


def filled(value: float) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        made = nn.Linear(6, 3)
        nn.init.constant_(made.weight, value)
        return made

    return make


def hooked() -> nn.Module:
    made = nn.Linear(6, 3)
    made.weight.register_post_accumulate_grad_hook(lambda parameter: None)
    return made


def made_at_first(m: Any) -> None:
    m.register_buffer("scale", torch.ones(1))


def longer_each_time(m: Any) -> None:
    m.register_buffer("seen", torch.cat([getattr(m, "seen", torch.zeros(0)), torch.zeros(1)]))


REFUSED: dict[str, tuple[Callable[[], Any], Callable[..., Any], Any, str]] = {
    "raises": (raising(KeyError("a\nb")), cross_entropy, (X, Y), "KeyError"),
    "raises-wordless": (raising(_Wordless()), cross_entropy, (X, Y), "_Wordless"),
    "raises-recursion": (raising(RecursionError("deep")), cross_entropy, (X, Y), "deep"),
    "loss-tuple": (line, lambda m, x, y: (m(x).sum(1), 1), (X, Y), "tuple for 6"),
    "loss-none": (line, lambda m, x, y: None, (X, Y), "NoneType for 6"),
    "loss-number": (line, lambda m, x, y: 3.0, (X, Y), "float for 6"),
    "loss-columns": (line, lambda m, x, y: m(x)[:, :1], (X, Y), r"\(6, 1\) for 6"),
    "loss-whole": (line, lambda m, x, y: m(x).argmax(1), (X, Y), "torch.int64"),
    "loss-truth": (line, lambda m, x, y: m(x).argmax(1) == y, (X, Y), "torch.bool"),
    "loss-complex": (line, lambda m, x, y: m(x).sum(1) * 1j, (X, Y), "torch.complex"),
    "loss-detached": (line, lambda m, x, y: m(x).sum(1).detach(), (X, Y), "gradient is not 0"),
    "loss-nan": (line, lambda m, x, y: m(x).sum(1) * float("nan"), (X, Y), "finite losses"),
    "loss-too-large": (line, lambda m, x, y: m(x).sum(1) * 1e200, (X, Y), "finite gradients"),
    "loss-no-function": (line, 3, (X, Y), "not callable"),  # type: ignore[dict-item]
    "no-parameters": (nn.Identity, cross_entropy, (X, Y), "a parameter that requires"),
    "frozen": (lambda: line().requires_grad_(False), cross_entropy, (X, Y), "that requires"),
    "no-module": (lambda: len, cross_entropy, (X, Y), "to be a torch module"),
    "meta": (lambda: nn.Linear(6, 3, device="meta"), cross_entropy, (X, Y), "to work on made-up"),
    "lazy": (lambda: nn.LazyLinear(3), cross_entropy, (X, Y), "weight"),
    "nan": (filled(float("nan")), cross_entropy, (X, Y), "finite losses"),
    "few": (line, cross_entropy, (X[:3], Y[:3]), "at least 4"),
    "none": (line, cross_entropy, (X[:0], Y[:0]), "at least 4"),
    "uneven": (line, cross_entropy, (X, Y[:5]), "to have one length"),
    "sparse": (line, cross_entropy, (X.to_sparse(), Y), "dense"),
    "wide": (line, cross_entropy, (X[:, :5], Y), "to work on made-up inputs"),
    "labels": (line, cross_entropy, (X, Y + 7), "out of bounds"),
    "hook": (hooked, cross_entropy, (X, Y), r"\[weight\] to have no hook"),
    "more-weights": (
        doing(lambda m: setattr(m, f"w{len(list(m.parameters()))}", nn.Parameter(torch.ones(1)))),
        *(cross_entropy, (X, Y), "not to change its weights"),
    ),
    "new-weights": (
        doing(lambda m: setattr(m.body, "weight", nn.Parameter(m.body.weight.detach().clone()))),
        *(cross_entropy, (X, Y), "not to change its weights"),
    ),
    "weights-drift": (
        doing(lambda m: m.body.weight.data.mul_(1 + 1e-6)),
        *(cross_entropy, (X, Y), "same for the same inputs|not to change its weights"),
    ),
    "freezes-itself": (
        doing(lambda m: m.body.weight.requires_grad_(False)),
        *(cross_entropy, (X, Y), "to have a gradient for a single example"),
    ),
    "no-gradients": (
        doing(lambda m: torch.set_grad_enabled(False)),
        *(cross_entropy, (X, Y), "gradient is not 0"),
    ),
}

SERVED: dict[str, tuple[Callable[[], nn.Module], Any]] = {
    "bfloat16": (lambda: line().bfloat16(), (X.bfloat16(), Y)),
    "half": (lambda: nn.Sequential(line(), nn.LayerNorm(3)).half(), (X.half(), Y)),
    "huge": (filled(1e30), (X, Y)),
    "zero": (filled(0.0), (X, Y)),
    "four": (line, (X[:4], Y[:4])),
    "alike": (line, (torch.ones(8, 6), torch.ones(8, dtype=torch.long))),
    "not-copied": (doing(lambda m: vars(m).setdefault("lock", threading.Lock())), (X, Y)),
    "buffer-made": (doing(made_at_first), (X, Y)),
    "buffer-longer": (doing(longer_each_time), (X, Y)),
    "float32-inside": (
        lambda: Net(
            lambda m, x: F.linear(x.float(), m.body.weight.float()).softmax(-1, torch.float32),
            body=nn.Linear(6, 300, bias=False),
        ),
        (X, Y),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_sentence(name: str) -> None:
    make, losses, inputs, why = REFUSED[name]
    threads = torch.get_num_threads()
    with pytest.raises(InvalidArgument, match=why) as caught:
        choose(make(), losses, inputs)
    assert str(caught.value).startswith("Expected ")
    assert "\n" not in str(caught.value)
    assert torch.is_grad_enabled()
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("name", SERVED)
def test_served(name: str) -> None:
    make, inputs = SERVED[name]
    module = make()
    before = {key: each.clone() for key, each in module.state_dict().items()}
    assert choose(module, cross_entropy, inputs).bytes_an_example > 0
    after = module.state_dict()
    assert all(torch.equal(after[key], each) for key, each in before.items())


class _Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(6, 3)
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.body(x)


@pytest.mark.parametrize("engine", ["one-pass", "one-by-one"])
def test_buffers_do_not_tell_how_many_records_a_step_had(engine: str) -> None:
    module = _Counting()
    trainer = PrivateTrainer(
        *(module, torch.optim.SGD(module.parameters(), lr=0.1), cross_entropy, (X, Y)),
        **{"noise_multiplier": 1.0, "sample_rate": 0.4, "steps": 9},
        **{"engine": engine, "physical_batch": 1},
    )
    trainer.run()
    # Batches of 3.2 on average, some of them empty, an example at a time: one move a step.
    assert int(module.calls) == 9
