"""Private linear models for scikit-learn users: `fit` returns what is safe to publish."""

from sordino.estimators.classifiers import PrivateLinearSVC, PrivateLogisticRegression
from sordino.estimators.saved import load
from sordino.estimators.tuning import tune

__all__ = ["PrivateLinearSVC", "PrivateLogisticRegression", "load", "tune"]
