"""One browser for all tests of a process, and the pages it opens."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

for directory in (
    "browser",
    "report",
):  # for chrome.py and sample_assessment.py, which are no tests
    sys.path.insert(0, str(Path(__file__).parents[1] / directory))


@pytest.fixture(scope="session")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """A missing browser is an error: whoever asks for these tests wants them run."""
    from chrome import Chrome

    started = Chrome(tmp_path_factory.mktemp("chromium"))
    yield started
    started.close()
