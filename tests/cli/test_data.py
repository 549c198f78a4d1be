from __future__ import annotations

import gzip
import hashlib
import subprocess
import sys
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from sordino.cli.main import main
from sordino.data.catalogue import recipes
from sordino.data.sources import RawFile

CONTENT = b"content\n"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    """Run the program; no data directory, an empty cache."""
    monkeypatch.delenv("SORDINO_DATA", raising=False)
    monkeypatch.setenv("SORDINO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["sordino", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return run


def _made(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    digest = "md5:" + hashlib.md5(CONTENT).hexdigest()
    raw = RawFile("made.csv.gz", digest, addresses, "https://publisher.example")
    made = replace(recipes.recipe("digits"), name="made", files=(raw,))
    monkeypatch.setitem(recipes.RECIPES, "made", made)


def _row(out: str, name: str) -> list[str]:
    (line,) = (line for line in out.splitlines() if line.split()[:1] == [name])
    return line.split(maxsplit=4)


def test_list_shows_every_recipe_without_cutting_anything(run) -> None:
    code, out, err = run("data", "list")
    assert (code, err) == (0, "")
    shown = [line.split()[0] for line in out.splitlines() if line.strip()]
    assert shown[2:-1] == list(recipes.names())
    assert "…" not in out
    forest = ["forest", "378,783/42,086/74,272", "49", "missing", "CC BY 4.0"]
    assert [part.strip() for part in _row(out, "forest")] == forest
    assert _row(out, "ipums")[1:3] == ["your", "file"]
    assert _row(out, "digits")[3] == "embedded"


def test_list_says_where_files_are(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "adult.data.gz").touch()
    assert _row(run("data", "list", "--data-dir", str(mine))[1], "adult")[3] == "missing"
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "adult.test.gz").touch()
    assert _row(run("data", "list", "--data-dir", str(mine))[1], "adult")[3] == "cached"
    (mine / "adult.test").touch()
    assert "data dir" in " ".join(_row(run("data", "list", "--data-dir", str(mine))[1], "adult"))
    monkeypatch.setenv("SORDINO_DATA", str(mine))
    assert "data dir" in " ".join(_row(run("data", "list")[1], "adult"))


def test_fetch_downloads_once_and_says_where(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = tmp_path / "served"
    served.mkdir()
    (served / "made.csv").write_bytes(CONTENT)

    class Quiet(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments, directory=str(served))  # type: ignore[arg-type]

        def log_message(self, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        _made(monkeypatch, f"http://127.0.0.1:{server.server_port}/made.csv")
        path = tmp_path / "cache" / "made.csv.gz"
        first = run("data", "fetch", "made")
        again = run("data", "fetch", "made")
        server.shutdown()
        thread.join()
    assert first == (0, f"made.csv.gz: downloaded to {path}\n", "")
    assert again == (0, f"made.csv.gz: already here and correct: {path}\n", "")
    assert gzip.decompress(path.read_bytes()) == CONTENT


def test_fetch_checks_what_is_in_the_data_directory(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _made(monkeypatch)
    copy = tmp_path / "made.csv"
    copy.write_bytes(CONTENT)
    code, out, _ = run("data", "fetch", "made", "--data-dir", str(tmp_path))
    assert (code, out) == (0, f"made.csv.gz: already here and correct: {copy}\n")
    copy.write_bytes(b"rubbish")
    code, out, err = run("data", "fetch", "made", "--data-dir", str(tmp_path))
    assert (code, out) == (1, "")
    assert err.startswith(f"{copy} is not that of ")
    assert "the md5 of its content is" in err
    assert err.count("\n") == 1
    assert copy.read_bytes() == b"rubbish"


def test_a_missing_file_is_one_line_and_exit_1(run, monkeypatch: pytest.MonkeyPatch) -> None:
    _made(monkeypatch, "http://127.0.0.1:9/made.csv")
    code, out, err = run("data", "fetch", "made")
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert "could not be downloaded (http://127.0.0.1:9/made.csv: " in err


def test_an_embedded_set_needs_nothing(run) -> None:
    code, out, _ = run("data", "fetch", "digits")
    assert (code, out) == (0, "digits comes with scikit-learn and needs no file.\n")


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        (("data", "fetch", "adlt"), "name"),
        (("data", "list", "--data-dir", "/no/such/place"), "data_dir"),
        (("data", "describe", "people.csv"), "--target"),
    ],
)
def test_a_bad_argument_is_one_sentence_and_exit_2(
    refused, arguments: tuple[str, ...], argument: str
) -> None:
    assert refused(*arguments) == argument


def test_help_teaches(run) -> None:
    code, out, _ = run("data", "--help")
    assert code == 0
    for word in ("--data-dir", "SORDINO_DATA", "SORDINO_CACHE", "checksum", "list", "fetch"):
        assert word in out
    assert "sordino data fetch adult" in run("data", "fetch", "--help")[1]


def test_listing_loads_no_data_library() -> None:
    program = (
        "import sys; sys.argv = ['sordino', 'data', 'list']\n"
        "from sordino.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print([m for m in ('pandas', 'sklearn', 'scipy', 'torch') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
