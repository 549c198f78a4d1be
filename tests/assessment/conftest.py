"""Assessments whose page nobody looks at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from sordino.report import page, sections


@pytest.fixture(scope="session")
def without_pages() -> Callable[[], AbstractContextManager[None]]:
    """No page is drawn within it, which takes longer than all the rest of a small assessment."""

    @contextmanager
    def undrawn() -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sections, "page", lambda found: None)
            patch.setattr(page, "html", lambda shown: "<html>")
            yield

    return undrawn


@pytest.fixture
def undrawn(without_pages: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """The whole test without pages."""
    with without_pages():
        yield
