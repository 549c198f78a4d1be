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
    from sordino.assessment.run import assess
    from sordino.estimators import PrivateLinearSVC, PrivateLogisticRegression, load, tune
    from sordino.mechanisms.certificate import Certificate
    from sordino.mechanisms.ledger import BudgetExceeded, Ledger
    from sordino.report.assessment import Assessment

__all__ = [
    "Assessment",
    "BudgetExceeded",
    "Certificate",
    "Estimate",
    "Guarantee",
    "InvalidArgument",
    "Ledger",
    "NotApplicable",
    "Observation",
    "PrivacyLeakWarning",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "Relation",
    "__version__",
    "assess",
    "load",
    "tune",
]

__version__ = "0.1.0.dev0"

_HEAVY = {
    "Assessment": "report.assessment",
    "BudgetExceeded": "mechanisms.ledger",
    "Certificate": "mechanisms.certificate",
    "Ledger": "mechanisms.ledger",
    "PrivateLinearSVC": "estimators",
    "PrivateLogisticRegression": "estimators",
    "assess": "assessment.run",
    "load": "estimators",
    "tune": "estimators",
}


def __getattr__(name: str) -> Any:
    if name in _HEAVY:
        return getattr(import_module(f"sordino.{_HEAVY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
