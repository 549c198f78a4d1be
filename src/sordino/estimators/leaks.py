"""Warnings about what a guarantee does not cover, at the user's own line."""

from __future__ import annotations

import sys
import warnings

from sordino.privacy import PrivacyLeakWarning


def warn_of_leak(what: str) -> None:
    """Warn that `what` is not private, as if from the code that called the estimator."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and _ours(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(f"Not private: {what}.", PrivacyLeakWarning, stacklevel=level)


def _ours(module: str) -> bool:
    # Pipelines and cross-validation are not where the user can change anything.
    return module.partition(".")[0] in ("sordino", "sklearn", "joblib")
