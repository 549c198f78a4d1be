"""Paper files are read strictly: a misspelt key or name would silently check nothing."""

import pytest
from small_paper import TEXT

from sordino.errors import InvalidArgument
from sordino_papers import reading


def test_rows_become_claims_one_a_printed_cell():
    paper = reading.read("small", TEXT)
    names = [claim.name for claim in paper.claims]
    assert names[:3] == [
        "small/table-1/total/one",
        "small/table-1/total/two",
        "small/table-1/half/one",  # the paper leaves the other cell empty
    ]
    total = paper.claims[1]
    assert (total.row, total.column, total.runs) == ("sum", "Second", ("small/two",))
    assert total.explanation.shown_by == ("small/checks/two-more",)
    assert paper.claims[0].explanation is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('row = "half of it"', 'roww = "half of it"'),
        ('printed_at = "page 1"', 'where = "page 1"'),
        ('printed = ["3", ""]', 'printed = ["3"]'),
        ('cells = ["total/two"]', 'cells = ["total/three"]'),
        ('says = "The second is larger."', ""),
        ("tolerance = { above = 0.0 }", "tolerance = { rounding = true }"),
        ("tolerance = { rounding = true }", "tolerance = { at_least = 1 }"),
        ('printed = ["6.0", "12"]', 'printed = ["six", "12"]'),
        ("quick = { of = [1.0] }", "quick = { off = [1.0] }"),
        ('key = "half"', 'key = "total"'),
        ('cells = ["total/two"]', 'cells = ["total/two", "total/two"]'),
        ('key = "half"', 'key = "half"\ncolumns = ["one", "three"]'),
        (
            "tolerance = { rounding = true }",
            "tolerance = { tow = { rounding = true }, else = { rounding = true } }",
        ),
    ],
)
def test_refuses_what_it_does_not_understand(old, new):
    assert old in TEXT
    with pytest.raises(InvalidArgument):
        reading.read("small", TEXT.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [('runs = ["two", "one"]', 'runs = ["two", "three"]'), ("checks/two-more", "checks/none")],
)
def test_names_must_exist(old, new):
    paper = reading.read("small", TEXT.replace(old, new))
    with pytest.raises(InvalidArgument):
        reading._check_names(paper, set(paper.runs))
