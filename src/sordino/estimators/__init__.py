"""Private linear models for scikit-learn users: `fit` returns what is safe to publish."""

from sordino.estimators.logistic import PrivateLogisticRegression
from sordino.estimators.svm import PrivateLinearSVC

__all__ = ["PrivateLinearSVC", "PrivateLogisticRegression"]
