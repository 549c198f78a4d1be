"""Runs are made once and kept; verdicts follow from numbers, tolerances and explanations."""

import pytest
from typer.testing import CliRunner

from sordino.cli import main
from sordino.data.catalogue.recipes import recipe
from sordino.errors import InvalidArgument
from sordino_papers import runs, score
from sordino_papers.reproduction import ClaimVerdict, reproduce


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
    results = list(found.results.values())
    assert score.score_of(results, "printed") == score.Score(2, 1, 0, 0)
    # The check of ours is not the paper's.
    assert score.score_of(results, "words") == score.Score(2, 0, 0, 1)


def test_an_explanation_counts_only_while_its_check_holds(small):
    small.texts["text"] = small.texts["text"].replace("plus = 2.0", "plus = 1.5")
    found = small.run()
    result = found.results["small/table-1/total/two"]
    assert result.verdict is ClaimVerdict.DIFFERS
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


def test_other_code_is_made_again(small, monkeypatch):
    small.run("small/table-1")
    monkeypatch.setattr(runs, "kind_identity", lambda kind: "another")
    small.run("small/table-1")
    assert len(small.made) == 4


def test_the_identity_of_a_kind_is_its_sources(tmp_path, monkeypatch):
    (tmp_path / "sgd").mkdir()
    (tmp_path / "sgd" / "a.py").write_text("1")
    (tmp_path / "one.py").write_text("1")
    monkeypatch.setattr(runs, "_SOURCES", tmp_path)
    monkeypatch.setitem(runs.SOURCES, "made up", ("sgd", "one.py"))
    found = []
    for path in ("sgd/a.py", "one.py", "other.py"):
        found.append(runs.kind_identity.__wrapped__("made up"))
        (tmp_path / path).write_text("2")
    assert len(set(found)) == 3
    assert runs.kind_identity.__wrapped__("made up") == found[-1]  # other.py is none of its sources


@pytest.mark.parametrize("gone", ["sgd", "one.py"])
def test_a_source_that_is_missing_is_no_identity(gone, tmp_path, monkeypatch):
    (tmp_path / "sgd").mkdir()  # a room that was renamed may leave an empty directory
    monkeypatch.setattr(runs, "_SOURCES", tmp_path)
    monkeypatch.setitem(runs.SOURCES, "made up", (gone,))
    with pytest.raises(RuntimeError, match=gone):
        runs.kind_identity.__wrapped__("made up")
    if gone == "sgd":
        (tmp_path / "sgd").rmdir()
        with pytest.raises(RuntimeError, match=gone):
            runs.kind_identity.__wrapped__("made up")


def test_the_users_own_files_are_known_by_size_and_time(tmp_path):
    settings = {"data": "ipums", "folder": "ipums-us"}
    (tmp_path / "ipums-us").mkdir()
    assert runs.files_identity(settings, tmp_path) == []
    name = recipe("ipums").files[0].local_names[0]
    file = tmp_path / "ipums-us" / name
    file.write_text("a")
    first = runs.files_identity(settings, tmp_path)
    file.write_text("ab")
    assert runs.files_identity(settings, tmp_path) != first
    assert runs.files_identity({"data": "adult"}, tmp_path) == []  # checked by their checksums


def test_the_sources_of_every_kind_are_there():
    for sources in runs.SOURCES.values():
        for name in sources:
            assert (runs._SOURCES / name).exists(), name


def test_a_damaged_file_is_made_again(small, tmp_path):
    small.run("small/table-1")
    for path in (tmp_path / "kept" / "runs").iterdir():
        path.write_bytes(path.read_bytes()[:50])
    assert verdicts(small.run("small/table-1"))["table-1/total/one"] == "reproduced"
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
        return whole(settings, bench)

    small.kinds["arithmetic"] = stops
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
    with pytest.raises(InvalidArgument, match="reproduce list"):
        small.run("small/table-9")
    with pytest.raises(InvalidArgument):
        small.run("small/table")  # a part of a name is no name


def test_exits_with_1_where_nothing_explains_a_difference(tmp_path, small, monkeypatch):
    small.texts["text"] = small.texts["text"].replace('printed = ["6.0"', 'printed = ["7.0"')
    command = ["reproduce", "small", "--out", str(tmp_path / "out"), "--no-figures"]
    result = CliRunner().invoke(main.app, command)
    assert result.exit_code == 1
    assert "differs" in result.output


def test_exits_with_1_where_nothing_could_be_judged(tmp_path, small, monkeypatch):
    command = ["reproduce", "small/figure-1/absent", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(main.app, [*command, "--no-figures"])
    assert result.exit_code == 1
    assert "somewhere.csv" in result.output
    assert "Nothing could be judged here" in result.output


def test_somebody_else_s_directory_is_refused_and_not_touched(small, tmp_path):
    """Whatever it holds, names that ours would overwrite among them."""
    for name in ("index.html", "README.txt", "runs", "thesis.txt"):
        place = tmp_path / f"of {name}"
        place.mkdir(mode=0o755)
        (place / name).write_text("mine")
        with pytest.raises(InvalidArgument, match=f"to be empty or a reproduction.*'{name}'"):
            reproduce("small", directory=place)
        assert [(each.name, each.read_text()) for each in place.iterdir()] == [(name, "mine")]
        assert place.stat().st_mode & 0o777 == 0o755


def test_what_is_kept_is_for_its_owner_alone(small, tmp_path):
    small.run()
    again = small.run()
    assert again.results
    files = [each for each in (tmp_path / "kept").rglob("*") if each.is_file()]
    assert len(files) > 2
    assert {oct(each.stat().st_mode & 0o777) for each in files} == {"0o600"}
