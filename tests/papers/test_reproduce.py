"""Runs are made once and kept; verdicts follow from numbers, tolerances and explanations."""

import pytest
from typer.testing import CliRunner

from sordino._check import InvalidArgument
from sordino.cli import main
from sordino.papers import reproduce
from sordino.papers.results import Verdict


def verdicts(found):
    return {name.removeprefix("small/"): str(r.verdict) for name, r in found.results.items()}


def test_every_claim_gets_its_verdict(small):
    found = small.run()
    assert verdicts(found) == {
        "table-1/total/one": "reproduced",
        "table-1/total/two": "differs, explained",
        "table-1/half/one": "reproduced",
        "figure-1/grows": "reproduced",
        "figure-1/absent": "not runnable here",
        "figure-1/whole": "reproduced",
        "checks/two-more": "reproduced",
    }
    assert found.results["small/table-1/total/two"].off == "0.833 times"
    assert "somewhere.csv" in found.results["small/figure-1/absent"].why
    assert not found.unexplained
    assert found.count(Verdict.REPRODUCED, printed=True) == 2
    assert found.count(Verdict.REPRODUCED) == 4  # the check of ours is not the paper's


def test_an_explanation_counts_only_while_its_check_holds(small):
    small.texts["text"] = small.texts["text"].replace("plus = 2.0", "plus = 1.5")
    found = small.run()
    result = found.results["small/table-1/total/two"]
    assert result.verdict is Verdict.DIFFERS
    assert "small/checks/two-more" in result.why
    assert {r.claim.name for r in found.unexplained} == {
        "small/table-1/total/two",
        "small/checks/two-more",
    }


def test_quick_leaves_full_claims_and_takes_wider_intervals(small):
    found = small.run(quick=True)
    assert "full size" in found.results["small/figure-1/whole"].why
    assert verdicts(found)["table-1/total/one"] == "differs"  # 1, far outside 0.5 to 1.5
    small.texts["text"] = small.texts["text"].replace("[1.0] }", "[5.6] }")
    found = small.run(quick=True)
    assert verdicts(found)["table-1/total/one"] == "reproduced"
    small.texts["text"] = small.texts["text"].replace("2.0, 3.0]", "2.0, 2.6]")
    assert verdicts(small.run())["table-1/total/one"] == "differs"


def test_only_what_changed_is_made_again(small):
    first = small.run("small/table-1")
    assert len(small.made) == 2
    again = small.run()
    assert len(small.made) == 2
    assert verdicts(first).items() <= verdicts(again).items()
    small.texts["text"] = small.texts["text"].replace("of = [10.0]", "of = [11.0]")
    small.run()
    assert [each["of"] for each in small.made[2:]] == [[11.0]]


def test_another_version_of_a_kind_is_made_again(small):
    small.run("small/table-1")
    small.kinds["arithmetic"] = (small.arithmetic, 2)
    small.run("small/table-1")
    assert len(small.made) == 4


def test_runs_of_runs_are_made_first_and_addressed_by_them(small):
    row = '[[places.figure-1.rows]]\nkey = "sum"\nsays = "It is 16."\nquantity = "total"\n'
    row += 'run = "sum"\ntolerance = { at_least = 16.0 }\nreason = "Exact."\n'
    small.texts["text"] += row
    assert verdicts(small.run("small/figure-1/sum")) == {"figure-1/sum": "reproduced"}
    assert len(small.made) == 3
    small.texts["text"] = small.texts["text"].replace("of = [10.0]", "of = [9.0]")
    assert verdicts(small.run("small/figure-1/sum")) == {"figure-1/sum": "differs"}
    assert len(small.made) == 5  # one is kept; two and the sum are made anew


def test_stopped_it_goes_on(small):
    whole = small.kinds["arithmetic"]

    def stops(settings, bench):
        if settings["of"] == [10.0]:
            raise KeyboardInterrupt
        return whole[0](settings, bench)

    small.kinds["arithmetic"] = (stops, 1)
    with pytest.raises(KeyboardInterrupt):
        small.run("small/table-1")
    small.kinds["arithmetic"] = whole
    found = small.run("small/table-1")
    assert [each["of"] for each in small.made] == [[1.0, 2.0, 3.0], [10.0]]
    assert verdicts(found)["table-1/total/one"] == "reproduced"


def test_a_part_is_asked_with_what_explains_it(small):
    found = small.run("small/table-1/total")
    assert verdicts(found) == {
        "table-1/total/one": "reproduced",
        "table-1/total/two": "differs, explained",
        "checks/two-more": "reproduced",
    }


def test_an_unknown_name_is_refused(small):
    with pytest.raises(InvalidArgument, match="small/table-1"):
        small.run("small/table-9")
    with pytest.raises(InvalidArgument):
        small.run("small/table")  # a part of a name is no name


def test_exits_with_1_where_nothing_explains_a_difference(tmp_path, small, monkeypatch):
    small.texts["text"] = small.texts["text"].replace('printed = ["6.0"', 'printed = ["7.0"')
    monkeypatch.setattr("sordino.papers.reading.papers", reproduce.papers)
    command = ["reproduce", "small", "--out", str(tmp_path / "out"), "--no-figures"]
    result = CliRunner().invoke(main.app, command)
    assert result.exit_code == 1
    assert "differs" in result.output
