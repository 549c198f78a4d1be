"""Private linear models for scikit-learn users: `fit` returns what is safe to publish."""

from sordino.estimators.classifiers import PrivateLinearSVC, PrivateLogisticRegression
from sordino.estimators.head import PrivateHead
from sordino.estimators.regression import PrivateLinearRegression, PrivateRidge
from sordino.estimators.saved import load
from sordino.estimators.transformers.pca import PrivatePCA
from sordino.estimators.transformers.pipeline import certify
from sordino.estimators.transformers.scaler import PrivateStandardScaler
from sordino.estimators.tuning import tune
from sordino.models.edges import OrientedEdges

__all__ = [
    "OrientedEdges",
    "PrivateHead",
    "PrivateLinearRegression",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivatePCA",
    "PrivateRidge",
    "PrivateStandardScaler",
    "certify",
    "load",
    "tune",
]
