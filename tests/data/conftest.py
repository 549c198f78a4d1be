"""A publisher on this machine, and a world without files."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest


@dataclass
class Publisher:
    """Serves `pages` (path -> bytes); `cut` pages break off half way; others are not found.

    Of `gzipped` pages it says that they are encoded so, as some servers do of files in .gz.
    """

    address: str = ""
    pages: dict[str, bytes] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)
    gzipped: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)

    def url(self, path: str) -> str:
        return f"{self.address}/{path}"


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    serving = Publisher()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.removeprefix("/")
            serving.asked.append(path)
            if path not in serving.pages:
                self.send_error(404)
                return
            body = serving.pages[path]
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            if path in serving.gzipped:
                self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if path in serving.cut else body)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield serving
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache, and no directory of raw files."""
    monkeypatch.delenv("SORDINO_DATA", raising=False)
    monkeypatch.setenv("SORDINO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
