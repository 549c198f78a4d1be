"""Private linear models for scikit-learn users: `fit` returns what is safe to publish."""

from sordino.estimators.classifiers import PrivateLinearSVC, PrivateLogisticRegression
from sordino.estimators.head import PrivateHead
from sordino.estimators.saved import load
from sordino.estimators.tuning import tune
from sordino.models.edges import OrientedEdges

__all__ = [
    "OrientedEdges",
    "PrivateHead",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "load",
    "tune",
]
