"""From what was done to what can be promised: every guarantee that applies, every reason why not.

`training.py` is about noise in every step, `output.py` about noise on the final weights,
`objective.py` about noise in the objective, `adaptive.py` about a budget spent as one goes.
Estimators, certificates and reports ask here, nowhere else.
"""

from sordino.proofs.proof import Proof
from sordino.proofs.training import NORM_SLACK, Proofs, prove, run_of

__all__ = ["NORM_SLACK", "Proof", "Proofs", "prove", "run_of"]
