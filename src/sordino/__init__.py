"""sordino: how private is the model you are about to release?

Public names only; heavy rooms are imported when first used.
"""

from sordino._check import InvalidArgument
from sordino.privacy import Estimate, Guarantee, NotApplicable, Observation, Relation

__all__ = [
    "Estimate",
    "Guarantee",
    "InvalidArgument",
    "NotApplicable",
    "Observation",
    "Relation",
    "__version__",
]

__version__ = "0.1.0.dev0"
