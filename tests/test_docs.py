"""The code in the docs runs, and every link in them leads somewhere."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RUN = ("guide", "accounting", "release", "intrinsic", "audit", "accuracy", "networks")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{name}.md" for name in RUN)])
def test_the_python_on_a_page_runs(page: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    assert blocks
    shared: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), shared)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


EXAMPLES = sorted(
    path.relative_to(ROOT / "src")
    for path in (ROOT / "src").rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("path", EXAMPLES, ids=str)
def test_the_examples_in_docstrings_run(path: Path) -> None:
    parts = [part for part in path.with_suffix("").parts if part != "__init__"]
    found = doctest.testmod(importlib.import_module(".".join(parts)))
    assert found.attempted
    assert not found.failed


def test_the_pages_are_few_and_short() -> None:
    sizes = {page.name: len(page.read_text().split()) for page in (ROOT / "docs").glob("*.md")}
    assert len(sizes) <= 11, sorted(sizes)
    assert max(sizes.values()) <= 4000, sizes
