"""A paper of our own, whose runs are arithmetic: reading, keeping and judging are tested on it."""

import numpy as np

from sordino_papers import quantities
from sordino_papers.quantities import Answer, Quantities

TEXT = """
[paper]
title = "On small numbers"
authors = "Nobody"
year = 2020

[runs.one]
kind = "arithmetic"
of = [1.0, 2.0, 3.0]
quick = { of = [1.0] }

[runs.two]
kind = "arithmetic"
of = [10.0]

[runs.sum]
kind = "arithmetic"
grids = ["one", "two"]

[runs.absent]
kind = "absent"

[places.table-1]
title = "Table 1: sums"
printed_at = "page 1"
columns = { one = "First", two = "Second" }
[[places.table-1.rows]]
key = "total"
row = "sum"
quantity = "total"
run = "{column}"
printed = ["6.0", "12"]
tolerance = { rounding = true }
reason = "Rounding."
[[places.table-1.rows]]
key = "half"
row = "half of it"
quantity = "total"
run = "{column}"
arguments = { times = 0.5 }
printed = ["3", ""]
tolerance = { relative = 0.1 }
reason = "A tenth."
[[places.table-1.explained]]
cells = ["total/two"]
text = "The paper counted two more."
shown_by = ["small/checks/two-more"]

[places.figure-1]
title = "Figure 1: growth"
[[places.figure-1.rows]]
key = "grows"
says = "The second is larger."
quantity = "difference"
runs = ["two", "one"]
tolerance = { above = 0.0 }
reason = "Larger is above 0."
[[places.figure-1.rows]]
key = "absent"
says = "Nobody can tell."
quantity = "total"
run = "absent"
tolerance = { above = 0.0 }
reason = "None."
[[places.figure-1.rows]]
key = "whole"
says = "The sum of the first is 6."
quantity = "total"
run = "one"
tolerance = { at_least = 6.0 }
reason = "It is."
full = true

[places.checks]
title = "Checks of ours"
[[places.checks.rows]]
key = "two-more"
says = "With two more it is as printed."
quantity = "total"
run = "two"
arguments = { plus = 2.0 }
tolerance = { at_least = 12.0 }
reason = "Exact."
ours = true
"""


class Sums(Quantities):
    def total(self, *, times=1.0, plus=0.0):
        value = times * float(self["values"].sum()) + plus
        return Answer(value, value - 0.5, value + 0.5)

    def difference(self):
        left, right = (run["values"].sum() for run in self.runs)
        return left - right


def ask(name, *runs, **arguments):
    """The answer of the real papers' quantities."""
    return quantities.registry()[name](*runs).ask(name, **arguments)


def values(settings):
    return {"values": np.array(settings["of"], dtype=float)}
