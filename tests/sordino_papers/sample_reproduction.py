"""A made-up reproduction with every verdict, for tests of what is made of one; this is no test."""

from __future__ import annotations

from pathlib import Path

from sordino_papers.claims import read
from sordino_papers.quantities import Answer
from sordino_papers.reproduction import (
    NEEDS_FULL,
    ClaimVerdict,
    Picture,
    Reproduction,
    Result,
    explain,
)

MISSING = "The file ipums.csv is missing. Put it into the directory that SORDINO_DATA names."

FIRST = """
[paper]
title = "Noise of its own"
authors = "A. Writer and B. Writer"
year = 2019

[runs.grid-a]
kind = "grid"
model = "logistic"
data = "adult"
seeds = 171
init = ["vary", "fixed"]
learning_rate = 0.0001
quick = { seeds = 16 }
[runs.grid-b]
kind = "grid"
model = "cnn"
data = "mnist"
seeds = 40
[runs.sizes]
kind = "sizes"

[places.table-3]
title = "Table 3: sensitivity, sigma and epsilon"
printed_at = "Table 3, section 4"
columns = { a = "CIFAR2", b = "MNIST-binary", c = "Adult" }
[[places.table-3.rows]]
key = "sigma"
row = "sigma_i(D), logistic regression"
quantity = "sigma"
run = "grid-a"
printed = ["0.083", "0.085", "0.110"]
tolerance = { relative = 0.05 }
reason = "Sampling error of 171 seeds: our bootstrap interval is 3% wide | or so."
[[places.table-3.rows]]
key = "factor"
row = "factor <script>alert(1)</script>"
columns = ["b", "c"]
quantity = "factor"
run = "grid-b"
printed = ["6.46", "5.1"]
tolerance = { factor = 1.6 }
reason = "A maximum over a sample."
[[places.table-3.rows]]
key = "delta"
row = "delta = 1/N^2"
quantity = "delta"
run = "grid-a"
printed = ["1.2e-8", "", "36.31%"]
tolerance = { rounding = true }
reason = "A formula."
[[places.table-3.rows]]
key = "seed-dominates"
says = "Variability due to the seed exceeds sensitivity almost always."
quantity = "share"
run = "grid-a"
tolerance = { at_least = 0.95 }
reason = "'Almost always' is read as 95% of pairs."
[[places.table-3.rows]]
key = "epsilon-falls"
says = "Epsilon falls with more steps."
columns = []
quantity = "slope"
runs = ["grid-a", "grid-b"]
tolerance = { below = 0.0 }
reason = "Falls is below 0."
[[places.table-3.explained]]
cells = ["sigma/c"]
text = "The paper forgot to divide by `sqrt(2)`."
shown_by = ["one/checks/root"]
[[places.table-3.explained]]
cells = ["factor/c"]
text = "The paper took another maximum."
shown_by = ["one/checks/maximum"]
[[places.table-3.drawings]]
draw = "distances"
runs = ["grid-a"]

[places.table-6]
title = "Table 6: sizes"
[[places.table-6.rows]]
key = "experiments"
row = "experiments"
quantity = "sizes"
run = "sizes"
printed = "9,000"
tolerance = { rounding = true }
reason = "A count."
[[places.table-6.rows]]
key = "accuracy"
row = "gain in accuracy"
quantity = "gain"
run = "grid-a"
printed = "+.0007"
tolerance = { absolute = 0.005 }
reason = "Half a point."

[places.table-7]
title = "Table 7: ten columns"
[places.table-7.columns]
a = "CIFAR2"
b = "MNIST-binary"
c = "Adult"
d = "Forest"
e = "GRP"
f = "Crop"
g = "MNIST, 10 classes"
h = "USPS"
i = "SVHN"
j = "IPUMS"
[[places.table-7.rows]]
key = "short"
row = "the last ones"
columns = ["b", "j"]
quantity = "sigma"
run = "grid-a"
printed = ["0.00411", "0.00411"]
tolerance = { rounding = true }
reason = "Rounding."
[[places.table-7.rows]]
key = "long"
row = "epsilon_i(D*), neural network"
quantity = "sigma"
run = "grid-a"
printed = ["17.41", "17.41", "17.41", "17.41", "17.41", "17.41", "17.41", "17.41", "17.41", "17.41"]
tolerance = { rounding = true }
reason = "Rounding."

[places.checks]
title = "What explanations lean on"
[[places.checks.rows]]
key = "root"
says = "Divided by the root of two, ours is as printed."
quantity = "root"
run = "grid-a"
tolerance = { at_least = 0.9 }
reason = "A tenth."
ours = true
[[places.checks.rows]]
key = "maximum"
says = "The other maximum is as printed."
quantity = "maximum"
run = "grid-b"
tolerance = { at_most = 1.1 }
reason = "A tenth."
ours = true

[places.slips]
title = "Slips in print"
[[places.slips.rows]]
key = "constant"
says = "The constant as typed is off by a factor of 43."
quantity = "constant"
run = "sizes"
tolerance = { at_least = 43.0 }
reason = "211 against 4.84."
ours = true
"""

SECOND = """
[paper]
title = "Minimising in private"
authors = "C. Writer"
year = 2021

[runs.ipums]
kind = "erm"

[places.figure-1]
title = "Figure 1: accuracy against epsilon"
printed_at = "Figure 1"
columns = { ipums = "IPUMS", adult = "Adult" }
[[places.figure-1.rows]]
key = "accuracy"
row = "accuracy at epsilon 1"
quantity = "accuracy"
run = "{column}"
printed = ["0.912(3)", "0.848(1)"]
tolerance = { absolute = 0.005 }
reason = "Half a point."
[[places.figure-1.rows]]
key = "best"
says = "Accuracy is at or above every baseline."
columns = ["ipums"]
quantity = "best"
run = "ipums"
tolerance = { at_least = 0.0 }
reason = "At or above."
[[places.figure-1.rows]]
key = "whole"
says = "The curve never falls."
columns = []
quantity = "falls"
run = "one/grid-a"
tolerance = { at_most = 0.0 }
reason = "Counted."
full = true
"""

FOUND = {
    "one/table-3/sigma/a": Answer(0.0843, 0.0812, 0.0861),
    "one/table-3/sigma/b": Answer(0.0849, 0.083, 0.087),
    "one/table-3/sigma/c": Answer(0.1557, 0.151, 0.159),
    "one/table-3/factor/b": Answer(21.37),
    "one/table-3/factor/c": Answer(1.25),
    "one/table-3/delta/a": Answer(1.204e-8),
    "one/table-3/delta/c": Answer(36.309),
    "one/table-3/seed-dominates/a": Answer(0.9999996, words="71,999 of 72,000"),
    "one/table-3/seed-dominates/b": Answer(0.97),
    "one/table-3/seed-dominates/c": Answer(0.91, 0.9, 0.92, "655 of 720"),
    "one/table-3/epsilon-falls": Answer(-0.2),
    "one/table-6/experiments": Answer(9000.0),
    "one/table-6/accuracy": Answer(-0.00012, -0.001, 0.0008),
    **{f"one/table-7/short/{column}": Answer(0.00411) for column in "bj"},
    **{f"one/table-7/long/{column}": Answer(17.412) for column in "abcdefghij"},
    "one/checks/root": Answer(0.998),
    "one/checks/maximum": Answer(4.2),
    "one/slips/constant": Answer(43.6),
    "two/figure-1/accuracy/adult": Answer(0.8461),
    "two/figure-1/whole": Answer(0.0),
}
SECONDS = {"one/grid-a": 61.2, "one/grid-b": 901.0, "one/sizes": 0.2}
DRAWING = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="504" height="200" viewBox="0 0 504 200">'
    '<rect width="504" height="200" fill="#ffffff"/>'
    '<path id="line" d="M20 180 L240 60 L480 20" stroke="#0072B2" fill="none"/></svg>'
)


def sample(directory: Path, *, quick: bool = False) -> Reproduction:
    """The reproduction, its picture written into `directory`."""
    papers = (read("one", FIRST), read("two", SECOND))
    claims = [claim for paper in papers for claim in paper.claims]
    results = explain({claim.name: _result(claim, quick) for claim in claims})
    runs = {name: run for paper in papers for name, run in paper.runs.items() if name in SECONDS}
    (directory / "figures").mkdir(parents=True, exist_ok=True)
    (directory / "figures/one-table-3.svg").write_text(DRAWING, encoding="utf-8")
    picture = Picture(
        *("one/table-3", "figures/one-table-3.svg", "figures/one-table-3.png"),
        says="Distances between final weights (ours)",
    )
    return Reproduction(papers, results, (picture,), SECONDS, runs, 12.5, quick)


def _result(claim, quick):
    if claim.full and quick:
        return Result(claim, None, ClaimVerdict.NOT_RUNNABLE, NEEDS_FULL)
    found = FOUND.get(claim.name)
    if found is None:
        return Result(claim, None, ClaimVerdict.NOT_RUNNABLE, MISSING)
    holds = claim.tolerance.holds(found, claim.printed)
    return Result(claim, found, ClaimVerdict.REPRODUCED if holds else ClaimVerdict.DIFFERS)
