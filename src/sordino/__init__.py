"""sordino: how private is the model you are about to release?

Public names only; heavy rooms are imported when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sordino._check import InvalidArgument
from sordino.privacy import (
    Estimate,
    Guarantee,
    NotApplicable,
    Observation,
    PrivacyLeakWarning,
    Relation,
)

if TYPE_CHECKING:
    from sordino.estimators import PrivateLinearSVC, PrivateLogisticRegression

__all__ = [
    "Estimate",
    "Guarantee",
    "InvalidArgument",
    "NotApplicable",
    "Observation",
    "PrivacyLeakWarning",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "Relation",
    "__version__",
]

__version__ = "0.1.0.dev0"

_ESTIMATORS = ("PrivateLinearSVC", "PrivateLogisticRegression")


def __getattr__(name: str) -> Any:
    if name in _ESTIMATORS:
        return getattr(import_module("sordino.estimators"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
