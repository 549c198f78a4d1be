"""Whatever is typed, the program answers or refuses: one sentence, in time, and nothing is left."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue

import pytest
from forked import Ending, Forge
from hostile import BASES, ENDINGS, MATERIAL, Case, derived, faults, material, program, state
from hostile import written_by_hand as by_hand

SECONDS = 25.0
"""What one invocation may take, on a machine that does other things as well."""
GIGABYTES = 1.5
"""What one invocation may hold; a fifth of that is Python and its libraries."""
LANES = 2


class Lane:
    """A directory with the material, and a process that runs the program there."""

    def __init__(self, forge: Forge, template: Path, directory: Path) -> None:
        self._forge, self._template, self._directory = forge, template, directory
        self._fresh()

    def _fresh(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)
        # Not shutil's: it would wait for the pipes.
        subprocess.run(["cp", "-a", self._template, self._directory], check=True)
        asked = self._directory / "study" / "study.toml"  # it names the place of the records
        asked.write_text(asked.read_text().replace(str(self._template), str(self._directory)))
        self._state = state(self._directory)

    def play(self, case: Case) -> tuple[Case, Ending, list[str]]:
        """Run it, judge it, and put everything back."""
        before = self._state
        if case.before is not None:
            case.before(self._directory)
            before = state(self._directory)
        limits = {"seconds": SECONDS, "gigabytes": 2 * GIGABYTES, "file_bytes": case.file_bytes}
        ending = self._forge.run(case.arguments, self._directory, out=case.out, **limits)
        after = state(self._directory)
        if after != self._state:
            self._fresh()
        return case, ending, faults(case, ending, before, after, GIGABYTES)


def play(lanes: Iterable[Lane], cases: Iterable[Case]) -> list[tuple[Case, Ending, list[str]]]:
    """Run all of them, each lane one after the other."""
    free: SimpleQueue[Lane] = SimpleQueue()
    for each in lanes:
        free.put(each)

    def one(case: Case) -> tuple[Case, Ending, list[str]]:
        lane = free.get()
        try:
            return lane.play(case)
        finally:
            free.put(lane)

    with ThreadPoolExecutor(free.qsize()) as pool:
        return list(pool.map(one, cases))


@pytest.fixture(scope="module")
def lanes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Lane]]:
    """Lanes with material that the program has made itself."""
    root = tmp_path_factory.mktemp("hostile")
    template = root / "template"
    template.mkdir()
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.chdir(template)
        for name, value in (
            *(("NO_COLOR", "1"), ("COLUMNS", "200"), ("PYTHONDONTWRITEBYTECODE", "1")),
            *(("SORDINO_CACHE", str(root / "cache")), ("BROWSER", "true")),
            *((f"{kind}_proxy", "http://127.0.0.1:9") for kind in ("http", "https")),
        ):
            patch.setenv(name, value)
        patch.delenv("SORDINO_DATA", raising=False)
        material(template)
        forges = [stack.enter_context(Forge()) for _ in range(LANES)]
        for words in MATERIAL:
            made = forges[0].run(words, template, seconds=300)
            assert made.code == 0, (words, made)
        yield [Lane(forge, template, root / f"lane{number}") for number, forge in enumerate(forges)]


def test_every_command_has_a_base_and_every_ending_a_parameter() -> None:
    found = dict(program())
    assert set(found) == set(BASES)
    assert set(ENDINGS) <= {each.name for takes in found.values() for each in takes}


TWINS = {
    "answers": [],
    "refuses": [],
    "hangs": ["it hung"],
    "takes long": ["it is long and does not say so"],
    "takes long and says so": [],
    "raises": ["a traceback"],
    "grows": ["0.5 GB of memory"],
    "answers nan": ["it answers nan"],
    "answers nothing": ["it answers nothing"],
    "leaves a file": ["it left left.json and told nobody"],
    "changes a file": ["it left there.txt and told nobody"],
    "removes a file": ["it left there.txt and told nobody"],
    "leaves half a file": ["half a file is left"],
    "says it twice": ["2 sentences on standard error"],
    "says nothing": ["0 sentences on standard error"],
    "ends oddly": ["exit code 7"],
}
"""What a program does, and what must be found wrong with it."""


def test_a_program_that_misbehaves_is_caught(tmp_path: Path) -> None:
    with Forge("broken_program:main", loaded=()) as forge:
        for what, wrong in TWINS.items():
            shutil.rmtree(tmp_path / "here", ignore_errors=True)
            (tmp_path / "here").mkdir()
            (tmp_path / "here" / "there.txt").write_text("as it was")
            before = state(tmp_path / "here")
            limit = 0.5 if what == "hangs" or "long" in what else 60
            ending = forge.run([what], tmp_path / "here", seconds=limit, to_stop=2)
            found = faults(Case((what,)), ending, before, state(tmp_path / "here"), 0.25)
            assert [each for each in found if each in wrong] == wrong, (what, ending, found)
            assert bool(found) == bool(wrong), (what, found)
            assert ending.seconds < 30
        assert forge.run(["grows"], tmp_path, seconds=60, gigabytes=0.25).code == 1
    left = subprocess.run(["pgrep", "-f", "sleep 1000"], capture_output=True, check=False)
    assert left.stdout == b""


def test_an_output_that_does_not_arrive_is_told_or_nobody_listens(tmp_path: Path) -> None:
    full = "The output could not be printed: No space left on device."
    with Forge(loaded=("sordino.cli.main",)) as forge:
        for words, kept in ((("data", "list"), ""), (("--help",), ""), (_KEY, _KEPT)):
            ending = forge.run(words, tmp_path, seconds=60, out="/dev/full")
            assert (ending.code, ending.err) == (1, f"{full}{kept}\n"), words
        ending = forge.run(("data", "list"), tmp_path, seconds=60, out="closed pipe")
        assert (ending.code, ending.err) == (1, "")


_KEY = ("certificate", "new-key", "me.pem")
_KEPT = " The key is in me.pem, its public half in me.public.pem."


@pytest.mark.slow
def test_whatever_is_typed_is_answered_or_refused_in_a_sentence(
    lanes: list[Lane], tmp_path: Path, record_property
) -> None:
    cases = [*derived(), *by_hand(lanes[0]._template)]
    assert len(cases) >= 300
    played = play(lanes, cases)
    wrong = [f"{case}: {'; '.join(found)}" for case, _, found in played if found]
    codes = Counter(ending.code for _, ending, _ in played)
    counted = {
        "tried": len(played),
        "answered": codes[0],
        "refused cleanly": sum(not found and ending.code != 0 for _, ending, found in played),
        "tracebacks": sum("a traceback" in found for _, _, found in played),
        "hangs": sum(ending.hung for _, ending, _ in played),
        "long, told and stopped": sum(
            ending.interrupted and not found for _, ending, found in played
        ),
        "wrong": len(wrong),
        "slowest": f"{max(ending.seconds for _, ending, _ in played):.1f} s",
    }
    record_property("hostile invocations", counted)
    print(counted)
    assert not wrong, "\n".join([str(counted), *wrong])
