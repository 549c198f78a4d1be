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
from hostile import BASES, ENDINGS, MATERIAL, Case, commands, derived, faults, material, state
from hostile import written_by_hand as by_hand

from sordino.cli.main import app

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
    found = dict(commands(app))
    assert set(found) == set(BASES)
    assert set(ENDINGS) <= {each.name for takes in found.values() for each in takes}


@pytest.mark.slow
def test_whatever_is_typed_is_answered_or_refused_in_a_sentence(
    lanes: list[Lane], tmp_path: Path, record_property
) -> None:
    cases = [*derived(app), *by_hand(lanes[0]._template)]
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
        "wrong": len(wrong),
        "slowest": f"{max(ending.seconds for _, ending, _ in played):.1f} s",
    }
    record_property("hostile invocations", counted)
    print(counted)
    assert not wrong, "\n".join([str(counted), *wrong])
