"""Private linear models for scikit-learn users: `fit` returns what is safe to publish."""

from sordino.estimators.loading import load
from sordino.estimators.logistic import PrivateLogisticRegression
from sordino.estimators.svm import PrivateLinearSVC
from sordino.estimators.tuning import tune

__all__ = ["PrivateLinearSVC", "PrivateLogisticRegression", "load", "tune"]
