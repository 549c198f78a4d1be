"""sordino: how private is the model you are about to release?

Public names only; heavy rooms are imported when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino import _lazy
from sordino.errors import InvalidArgument, NotApplicable, PrivacyLeakWarning
from sordino.privacy import Estimate, Guarantee, Observation, Relation

if TYPE_CHECKING:
    from sordino.assessment.run import assess
    from sordino.estimators import (
        PrivateHead,
        PrivateLinearRegression,
        PrivateLinearSVC,
        PrivateLogisticRegression,
        PrivatePCA,
        PrivateRidge,
        PrivateStandardScaler,
        certify,
        load,
        tune,
    )
    from sordino.release.certificate import Certificate
    from sordino.release.ledger import BudgetExceeded, Ledger
    from sordino.report.result import Assessment

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
    "PrivateHead",
    "PrivateLinearRegression",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivatePCA",
    "PrivateRidge",
    "PrivateStandardScaler",
    "Relation",
    "__version__",
    "assess",
    "certify",
    "load",
    "tune",
]

__version__ = "0.1.0.dev0"

_HEAVY = {
    "Assessment": "report.result",
    "BudgetExceeded": "release.ledger",
    "Certificate": "release.certificate",
    "Ledger": "release.ledger",
    "PrivateHead": "estimators",
    "PrivateLinearRegression": "estimators",
    "PrivateLinearSVC": "estimators",
    "PrivateLogisticRegression": "estimators",
    "PrivatePCA": "estimators",
    "PrivateRidge": "estimators",
    "PrivateStandardScaler": "estimators",
    "assess": "assessment.run",
    "certify": "estimators",
    "load": "estimators",
    "tune": "estimators",
}

__getattr__, __dir__ = _lazy.public_names(__name__, _HEAVY)
