"""From what was done to what can be promised: every guarantee that applies, every reason why not.

`theorems.py` is the table that estimators, certificates, commands and reports ask, nothing else.
What was done is a value, by where the noise is: `steps.py` in every step, `output.py` on the final
weights, `objective.py` in the objective, `adaptive.py` by a budget spent as one goes. `evidence.py`
is these as a certificate carries them, `settings.py` compares them with what was asked for.
"""

from sordino.proofs.proof import NORM_SLACK, Proof
from sordino.proofs.steps import run_of
from sordino.proofs.theorems import Proofs, prove

__all__ = ["NORM_SLACK", "Proof", "Proofs", "prove", "run_of"]
