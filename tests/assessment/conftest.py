"""Assessments whose page nobody looks at."""

from __future__ import annotations

import pytest

from sordino.report import page, sections


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """No page is drawn, which takes longer than all the rest of a small assessment."""
    monkeypatch.setattr(sections, "page", lambda found: None)
    monkeypatch.setattr(page, "html", lambda shown: "<html>")
