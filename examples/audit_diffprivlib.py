"""Catch a real library: diffprivlib 0.6.6's LogisticRegression at data_norm=100.

It claims epsilon = 1, and calibrates its noise with c R where the theorem needs c R^2 (R bounds the
rows, c = 1/4 the curvature of the logistic loss): right for R = 1, too little for R = 100.

diffprivlib does not import on current scikit-learn, so it wants an environment of its own. In the
directory of this file::

    python -m venv side && side/bin/pip install ../ diffprivlib==0.6.6 "scikit-learn<1.7"
    side/bin/sordino audit audit_diffprivlib:estimator --pair audit_diffprivlib:pair \
        --score audit_diffprivlib:closeness --epsilon 1 --delta 0 --runs 20000

The second world has one record at the norm, the first has a zero row in its place. There the exact
minimiser of the noisy objective is close to 0 far more often: the loss is so curved at 0 that much
of the noise is mapped there. So "is the weight small?" tells the worlds apart.
"""

from __future__ import annotations

import numpy as np
from diffprivlib.models import LogisticRegression

NORM = 100.0

estimator = LogisticRegression(epsilon=1.0, data_norm=NORM, fit_intercept=False)


def pair() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Two records each; the second is a zero row, or one at the norm."""
    labels = np.array([0, 1])
    return (np.zeros((2, 1)), labels), (np.array([[0.0], [NORM]]), labels)


def closeness(outputs: np.ndarray) -> np.ndarray:
    """High where the weight is close to 0."""
    return -np.abs(outputs[:, 0])
