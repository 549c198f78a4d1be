"""The battery: modules by which private training of any network is judged.

Each entry is right under a loop over single examples, or must be refused. Lengths of sequences are
often 5, and so is the batch that tests draw: a program that takes another dimension for that of the
examples must not be saved by a difference in size. Nothing starts at 0 that would hide a gradient.
"""

from zoo import (  # noqa: F401 - each adds its entries
    attention,
    batches,
    dense,
    fresh,
    functions,
    images,
    losses,
    norms,
    randomness,
    recurrent,
    state,
    tokens,
    weights,
)
from zoo.parts import ZOO, Entry

__all__ = ["SEPARATE", "ZOO", "Entry", "named"]

SEPARATE = {
    # What mixes gradients finds one in the batch; a function without a rule is not mapped.
    "gradient-mixed-by-a-function": {"one by one"},
    "gradient-normalised-over-batch": {"one by one", "torch.func"},
}
"""Entries to be refused that engines with one example in a batch serve rightly, by definition."""


def named(name: str) -> Entry:
    """Return the entry of that name."""
    (found,) = (entry for entry in ZOO if entry.name == name)
    return found
