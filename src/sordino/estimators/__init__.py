"""Private linear models for scikit-learn users: `fit` returns what is safe to publish."""

from sordino.estimators.classifiers import PrivateLinearSVC, PrivateLogisticRegression
from sordino.estimators.regression import PrivateLinearRegression, PrivateRidge
from sordino.estimators.saved import load
from sordino.estimators.tuning import tune

__all__ = [
    "PrivateLinearRegression",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivateRidge",
    "load",
    "tune",
]
