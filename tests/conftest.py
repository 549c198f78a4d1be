"""What every test may ask for: the directory of real raw files, a cache of its own, and Dask."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hypothesis
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for what several directories of tests use
# How long an example takes says something of the machine, not of the program.
hypothesis.settings.register_profile("sordino", deadline=None, max_examples=50)
hypothesis.settings.load_profile("sordino")
# Tests are many small products: threads would wait for each other longer than they compute, and two
# processes run the tests side by side.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Compiled loops go to a cache of the tests' own, before anything is imported that compiles.
os.environ.setdefault("NUMBA_CACHE_DIR", f"{tempfile.gettempdir()}/sordino-tests")

_DATA = os.environ.get("SORDINO_DATA")
_REASON = (
    "SORDINO_DATA is not set: point it at a directory with the raw files named in docs/guide.md"
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests on real files where there are none."""
    for item in items:
        if _DATA is None and item.get_closest_marker("real_data"):
            item.add_marker(pytest.mark.skip(reason=_REASON))


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The directory of real raw files; mark the test `real_data` as well."""
    if _DATA is None:
        pytest.skip(_REASON)
    return Path(_DATA)


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    # No test reads or writes the cache of whoever runs it.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SORDINO_CACHE", str(tmp_path_factory.mktemp("cache") / "sordino"))
        patch.setenv("SORDINO_STATE", str(tmp_path_factory.mktemp("state")))
        # Hundreds of waits for the disk; that they are asked for is a test of its own.
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(autouse=True)
def _own_state(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    # What one test releases is no second release in another.
    name = hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:16]
    monkeypatch.setenv("SORDINO_STATE", f"{os.environ['SORDINO_CACHE']}-state/{name}")


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A directory of a user for whom permissions count; root's are dropped meanwhile."""
    directory = Path(tempfile.mkdtemp())
    root = os.geteuid() == 0
    try:
        if root:
            os.chown(directory, 65534, 65534)
            os.seteuid(65534)
        yield directory
    finally:
        if root:
            os.seteuid(0)
        for each in (directory, *directory.rglob("*")):
            each.chmod(0o700)
        shutil.rmtree(directory)


@contextmanager
def _cluster(**how: Any) -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # Dask reports workers that are gone; here that is meant
    try:
        with (
            distributed.LocalCluster(dashboard_address=":0", **how) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            yield client
    finally:
        logging.disable(before)


@pytest.fixture(scope="module")
def dask_threads() -> Iterator[Any]:
    """A client of a cluster inside this process, with two threads."""
    with _cluster(n_workers=1, threads_per_worker=2, processes=False) as client:
        yield client


@pytest.fixture(scope="module")
def dask_processes() -> Iterator[Any]:
    """A client of two worker processes."""
    with _cluster(n_workers=2, threads_per_worker=1) as client:
        yield client
