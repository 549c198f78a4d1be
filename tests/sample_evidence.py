"""A training, and what the evidence of several trainings has in common."""

from __future__ import annotations

from typing import Any

from sordino.models.constants import ObjectiveSpec
from sordino.privacy import Relation
from sordino.sgd.spec import TrainSpec

SHAPE: dict[str, Any] = {"relation": Relation.REPLACE_ONE, "columns": 4}
SPEC = TrainSpec(
    ObjectiveSpec("logistic", l2=0.01, intercept=False),
    learning_rate=0.5,
    batch_size=50,
    epochs=2,
    order="permute-once",
    drop_last=True,
    init="given",
    dtype="float64",
)
NOISY: dict[str, Any] = {"order": "poisson", "max_grad_norm": 1.0, "noise_multiplier": 2.0}
