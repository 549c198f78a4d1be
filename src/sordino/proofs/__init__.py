"""From what was done to what can be promised: every guarantee that applies, every reason why not.

`theorems.py` is the table that estimators, certificates, commands and reports ask, nothing else.
What was done is a value, by where the noise is: `run.py` in every step, `output.py` on the final
weights, `objective.py` in the objective, `adaptive.py` by a budget spent as one goes. `evidence.py`
and `evidence_kinds.py` are these as a certificate carries them; `training.py` proves noisy steps.
"""

from sordino.proofs.proof import Proof
from sordino.proofs.run import NORM_SLACK, run_of
from sordino.proofs.training import Proofs, prove

__all__ = ["NORM_SLACK", "Proof", "Proofs", "prove", "run_of"]
