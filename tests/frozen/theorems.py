"""Every bound and every refusal of every theorem, over random trainings and releases."""

from __future__ import annotations

import random
from typing import Any

from frozen import adapter

Plain = dict[str, Any]
RELATIONS = ("replace-one", "zero-out", "add-or-remove-one")


def trainings(many: int, seed: int) -> Plain:
    """Noise in every step, asked of every theorem."""
    draw, found = random.Random(seed), Plain()
    for at in range(many):
        n = draw.choice([40, 100, 250, 1000])
        spec = _spec(draw, n, noise=draw.random() < 0.9)
        found[f"prove {seed} {at}"] = adapter.prove(
            *(spec, draw.choice([0.5, 1.0, 2.0]), n, draw.choice(RELATIONS)),
            *(draw.choice([1e-5, 1e-6, 1e-8, 1e-3]), draw.choice(["final", "final", "all"])),
        )
    return found


def _schedule(draw: random.Random, l2: float) -> Plain:
    kind = draw.choice(["constant", "constant", "constant", "per-epoch", "strongly-convex"])
    made: Plain = {"kind": kind, "rate": 0.0, "smooth": 0.0, "strongly_convex": 0.0}
    if kind == "strongly-convex":
        return {**made, "smooth": draw.choice([0.3, 0.5, 1.2]), "strongly_convex": l2 or 0.05}
    return {**made, "rate": draw.choice([0.05, 0.3, 0.5, 1.0, 3.0, 9.0])}


def _objective(draw: random.Random, *, linear: bool = False) -> Plain:
    kinds = ["logistic", "logistic", "logistic", "huber-svm", "huber-svm"]
    kinds += [] if linear else ["least-squares", "mlp", "cnn"]
    kind = draw.choice(kinds)
    return {
        "kind": kind,
        "l2": draw.choice([0.0, 0.001, 0.01, 0.1]),
        "intercept": kind in ("mlp", "cnn") or draw.random() < 0.5,
        "huber_width": draw.choice([0.5, 0.1]),
        "hidden": 10,
        "classes": 10,
    }


def _spec(draw: random.Random, n: int, *, noise: bool) -> Plain:
    objective = _objective(draw)
    order = draw.choice(["shuffle", "permute-once", "fixed", "poisson", "poisson"])
    steps = draw.random() < 0.6
    batch = draw.choice([1, 5, n // 10, n // 7, n // 2, n, n])
    poisson = order == "poisson"
    return {
        "objective": objective,
        "learning_rate": _schedule(draw, objective["l2"]),
        "batch_size": batch,
        "steps": draw.choice([1, 6, 30, 80]) if steps else None,
        "epochs": None if steps else draw.choice([1, 2, 3]),
        "order": order,
        "sample_rate": batch / n if poisson and draw.random() < 0.5 else None,
        "drop_last": draw.random() < 0.4,
        "max_grad_norm": draw.choice([0.5, 1.0, 4.0]) if noise or draw.random() < 0.3 else None,
        "noise_multiplier": draw.choice([0.5, 1.0, 2.0, 6.0]) if noise else 0.0,
        "fixed_divisor": draw.choice([None, None, True]),
        "radius": draw.choice([None, None, None, 1.0]),
        "average_every": draw.choice([None] * 7 + [1]),
        "restart_every": draw.choice([None] * 7 + [2]),
        "init": "vary",
        "init_seed": 0,
        "dtype": "float64" if draw.random() < 0.8 else "float32",
    }


def releases(many: int, seed: int) -> Plain:
    """What certificates carry, of every kind, and the least noise for a budget."""
    draw, found = random.Random(seed), Plain()
    makers = [_output, _output, _steps, _objective_noise, _adaptive]
    for at in range(many):
        make = makers[at % len(makers)]
        evidence, delta = make(draw), draw.choice([1e-5, 1e-6, 1e-3])
        found[f"bounds {seed} {at}"] = adapter.bounds(evidence, delta, curve=at % 15 < 2)
        if at % 3 == 0:
            epsilon = draw.choice([0.3, 1.0, 4.0])
            found[f"noise {seed} {at}"] = adapter.least_noise(evidence, epsilon, delta)
        if at % 10 == 9:
            found[f"selection {seed} {at}"] = adapter.bounds(_selection(draw), delta)
    return found


def _common(draw: random.Random, *, group: bool = True) -> Plain:
    """`group` where the groups' profile does not take half a minute."""
    return {
        "relation": draw.choice(RELATIONS),
        "columns": draw.choice([3, 11, 61]),
        "problems": draw.choice([1, 1, 3]),
        "rows_per_person": draw.choice([1, 1, 1, 4]) if group else 1,
    }


def _output(draw: random.Random) -> Plain:
    n = draw.choice([40, 100, 250, 1000])
    averaged = draw.choice([None, None, 1, 2])
    spec = {
        **_spec(draw, n, noise=False),
        "objective": _objective(draw, linear=True),
        "order": draw.choice(["permute-once", "permute-once", "shuffle", "fixed", "poisson"]),
        "sample_rate": None,
        "average_every": averaged,
        "restart_every": averaged,
        "radius": draw.choice([None] * 9 + [1.0]),
        "init": "given",
    }
    spec["learning_rate"] = _schedule(draw, spec["objective"]["l2"])
    return {
        "kind": "output-perturbation",
        **_common(draw),
        "spec": spec,
        "rows": n,
        "norm": draw.choice([1.0, 2.0]),
        "sigma": draw.choice([0.01, 0.1, 0.5]),
        "start_norm": draw.choice([0.0, 1.5]),
        "source": draw.choice(["", "bolt-on SGD (Wu et al. 2017)"]),
    }


def _steps(draw: random.Random) -> Plain:
    n = draw.choice([40, 100, 250, 1000])
    spec = {**_spec(draw, n, noise=True), "objective": _objective(draw, linear=True)}
    return {
        "kind": "noisy-steps",
        **_common(draw, group=False),
        "spec": {**spec, "init": "given"},
        "rows": n,
        "norm": draw.choice([1.0, 2.0]),
        "delta": 1e-5,
        "accountant": draw.choice(["best", "best", "pld", "moments"]),
    }


def _objective_noise(draw: random.Random) -> Plain:
    return {
        "kind": "objective-perturbation",
        **_common(draw, group=False),
        "loss": draw.choice(["logistic", "huber-svm"]),
        "huber_width": draw.choice([0.5, 0.1]),
        "norm": draw.choice([1.0, 2.0]),
        "regulariser": draw.choice([0.05, 0.5, 3.0, 20.0]),
        "sigma": draw.choice([0.7, 3.0, 12.0]),
        "sigma_out": draw.choice([1e-4, 1e-2]),
        "gradient_left": draw.choice([0.0, 1e-9, 1e-5]),
    }


def _adaptive(draw: random.Random) -> Plain:
    rho = draw.choice([1e-3, 0.02, 0.3, 2.0])
    return {"kind": "adaptive", **_common(draw), "rho": rho, "clip": draw.choice([0.5, 1.0])}


def _selection(draw: random.Random) -> Plain:
    common = {**_common(draw), "problems": 1, "rows_per_person": 1}
    makers = draw.sample([_output, _steps, _objective_noise, _adaptive], 2)
    candidates = [{**make(draw), **common} for make in makers]
    return {
        "kind": "selection",
        **common,
        "candidates": candidates,
        "selected": draw.choice([0, 1]),
        "mean": draw.choice([2.0, 5.0]),
        "shape_of_runs": draw.choice([0.0, 1.0, "inf"]),
    }
