"""`sordino reproduce`, on the one paper that needs neither data nor training."""

import html
import json

import pytest
from typer.testing import CliRunner

from sordino.cli import main
from sordino_papers.claims import papers

RUN = CliRunner()


def said(*arguments):
    return RUN.invoke(main.app, ["reproduce", *arguments])


def test_list_names_every_table_and_figure():
    result = said("list")
    assert result.exit_code == 0
    for paper in papers().values():
        for place in paper.places:
            assert place.name in result.output


def test_a_paper_without_data(tmp_path):
    out, notes = tmp_path / "out", tmp_path / "notes.md"
    result = said("notes/section-4", "--out", str(out), "--summary", str(notes))
    assert result.exit_code == 0, result.output
    for word in ("paper", "ours", "interval", "verdict", "reproduced"):
        assert word in result.output
    page = html.unescape((out / "index.html").read_text())
    kept = json.loads((out / "results.json").read_text())
    (place,) = [place for place in papers()["notes"].places if place.key == "section-4"]
    names = [claim.name for claim in place.claims]
    assert set(names) < {each["name"] for each in kept["claims"]}  # and what explanations lean on
    assert place.title in page
    pictures = {path.suffix for path in (out / "figures").iterdir()}
    assert pictures == {".svg", ".png"}
    whole = (out / "markdown" / "reproduction.md").read_text()
    for path in (out / "figures").glob("*.png"):
        assert f"../figures/{path.name}" in whole
    short = notes.read_text()
    assert "notes/section-4: advanced/0.1, advanced/1" in short
    assert len(short.split()) < len(whole.split()) / 2
    assert (out.stat().st_mode & 0o777) == 0o700


def test_an_unknown_name_is_one_sentence(tmp_path):
    with pytest.raises(Exception, match="reproduce list"):
        RUN.invoke(
            main.app, ["reproduce", "v3", "--out", str(tmp_path / "x")], catch_exceptions=False
        )
