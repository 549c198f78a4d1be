"""Losses: values, gradients and constants, for thousands of weight vectors at once.

`build` turns an `ObjectiveSpec` into something that computes; torch is imported only then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino.models.constants import Constants, ObjectiveSpec

if TYPE_CHECKING:
    from sordino.models.batched import Objective

__all__ = ["Constants", "ObjectiveSpec", "build"]


def build(
    spec: ObjectiveSpec, features: int, image_shape: tuple[int, ...] | None = None
) -> Objective:
    """Make the objective that `spec` describes, for rows with this many features.

    A "cnn" also needs the shape of the image that a row holds.

    >>> build(ObjectiveSpec("mlp", hidden=10), features=50).parameters
    521
    """
    if spec.is_linear:
        from sordino.models.linear import Linear

        return Linear(spec, features)
    if spec.kind == "softmax":
        from sordino.models.softmax import Softmax

        return Softmax(spec, features)
    if spec.kind == "mlp":
        from sordino.models.mlp import Mlp

        return Mlp(spec, features)
    from sordino.models.cnn import Cnn

    return Cnn(spec, features, image_shape)
