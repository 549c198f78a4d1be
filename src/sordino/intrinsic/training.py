"""`Training`: what is trained on what, from a command's options and the settings of the papers."""

from __future__ import annotations

import dataclasses
import math
import os
import warnings
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from sordino import checks
from sordino.data.source import Source

if TYPE_CHECKING:
    from sordino.data import Dataset
    from sordino.data.catalogue.recipes import Network, Recipe
    from sordino.sgd.spec import TrainSpec

_RATE, _BATCH, _HIDDEN = 0.5, 32, 10
"""Settings of most of the papers' experiments, for a file of the user's own."""
_EVERY = 50


class TrainedModel(StrEnum):
    """What is trained."""

    LOGISTIC = "logistic"
    SVM = "svm"
    MLP = "mlp"
    CNN = "cnn"


@dataclass(frozen=True, eq=False)
class _Material:
    """Records to train on, those to judge convergence by, and what is known of them by name."""

    train: Dataset
    validation: Dataset | None
    recipe: Recipe | None


@dataclass(frozen=True)
class Training:
    """The options that say how to train; what is not given comes from the papers' settings."""

    model: TrainedModel
    steps: int | None
    until_converged: bool
    batch_size: int | None
    learning_rate: float | None
    l2: float

    def __post_init__(self) -> None:
        if self.steps is not None and self.until_converged:
            checks.fail("--steps", self.steps, "or --until-converged, not both")
        for name in ("steps", "batch_size"):
            if (value := getattr(self, name)) is not None:
                checks.whole(f"--{name.replace('_', '-')}", value, at_least=1)
        if self.learning_rate is not None:
            checks.positive("--learning-rate", self.learning_rate)
        checks.non_negative("--l2", self.l2)

    def read(self, source: Source) -> _Material:
        """Read and prepare the records."""
        import numpy as np

        from sordino.data import Dataset, load, preprocess
        from sordino.errors import PrivacyLeakWarning

        source.refuse_numbers()
        if not source.is_file:
            if source.data_norm is not None:
                checks.fail("--data-norm", source.data_norm, "to be left out for this dataset")
            splits = load(source.data, data_dir=source.data_dir)
            return _Material(splits.train, splits.validation, splits.recipe)
        with warnings.catch_warnings():
            # A study is not for release, whatever was read off its rows.
            warnings.simplefilter("ignore", PrivacyLeakWarning)
            prepared = source.read()
        bound = self.row_norm(source.data_norm)
        X = preprocess.clip_rows(np.asarray(prepared.X, dtype=np.float64), bound)
        _, codes = np.unique(np.asarray(prepared.y), return_inverse=True)
        name = os.path.basename(source.data)
        everyone = Dataset(X.astype(np.float32), codes, bound, name)
        if self.steps is not None:
            return _Material(everyone, None, None)
        kept, held = preprocess.shuffled(everyone.rows, 90, "measure")
        return _Material(everyone.take(kept), everyone.take(held), None)

    def row_norm(self, data_norm: float | None) -> float:
        """The bound on a row alone: a linear model's intercept has its 1 inside `data_norm`."""
        if data_norm is None:
            return 1.0
        if self.model in (TrainedModel.MLP, TrainedModel.CNN):
            return data_norm
        if data_norm <= 1:
            with_it = math.hypot(data_norm, 1.0)
            hint = f"The intercept's 1 counts: pass {with_it:.16g} for rows within {data_norm}."
            checks.fail("--data-norm", data_norm, "> 1", hint)
        # So many digits that hypot(row norm, 1), typed again, is the same row norm.
        return float(f"{math.sqrt((data_norm - 1) * (data_norm + 1)):.12g}")

    def check_same_norm(self, source: Source, study: str) -> None:
        """Refuse to go on with a study whose `data_norm` was meant without the intercept's 1."""
        data_norm = source.data_norm if source.is_file else None
        if data_norm is None or self.row_norm(data_norm) == data_norm:
            return
        from pathlib import Path

        from sordino.study.document import Document

        there = Document.read(Path(study))
        if there and there.description.get("dataset", {}).get("norm_bound") == data_norm:
            with_it = f"to be {math.hypot(data_norm, 1.0):.16g} for {study}"
            checks.fail("--data-norm", data_norm, with_it, "The intercept's 1 counts now.")

    def spec(self, material: _Material) -> tuple[TrainSpec, str]:
        """The training, and how its length came about."""
        from sordino.models.constants import ObjectiveSpec
        from sordino.sgd.spec import TrainSpec

        recipe = material.recipe
        network = None if recipe is None else recipe.network
        found: Recipe | Network | None = recipe
        if self.model is TrainedModel.MLP and recipe is not None:
            found = network
        steps = None if found is None else found.steps
        rate = _RATE if found is None else found.learning_rate
        batch = self.batch_size or (_BATCH if found is None else found.batch_size)
        kind = "huber-svm" if self.model is TrainedModel.SVM else self.model.value
        hidden = _HIDDEN if network is None else network.hidden_size
        objective = ObjectiveSpec(kind, l2=self.l2, hidden=hidden)
        length = self.steps or steps or 1
        spec = TrainSpec(objective, self.learning_rate or rate, batch, steps=length)
        if self.steps is not None or (steps is not None and not self.until_converged):
            return spec, "as given" if recipe is None or self.steps else recipe.settings_from
        if material.validation is None:
            checks.fail("--until-converged", "", "to have validation rows", "Pass --steps.")
        from sordino.sgd import convergence_point

        # It may take ten times the papers' steps to converge; for a file, a hundred passes.
        longest = 10 * (steps or 10 * spec.batches_per_epoch(material.train.rows))
        spec = dataclasses.replace(spec, steps=max(longest, _EVERY))
        point = convergence_point(spec, material.train, material.validation, every=_EVERY)
        judged = f"by {len(material.validation.y):,} validation rows every {_EVERY} steps"
        outcome = f"converged, {judged}" if point.converged else f"NOT converged, {judged}"
        return dataclasses.replace(spec, steps=point.step), outcome
