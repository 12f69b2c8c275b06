"""Tests of whether a daemon answers on its port, and with which configuration."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.modules.daemon_reload import (
    Access,
    fetch,
    loaded_since,
    metric_value,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

METRICS = """# TYPE prometheus_config_last_reload_successful gauge
prometheus_config_last_reload_successful {ok}
prometheus_config_last_reload_success_timestamp_seconds 1.5e+09
"""


class Answer(BaseHTTPRequestHandler):
    """An HTTP server that demands a password for /locked."""

    def do_GET(self) -> None:
        """Answer the request."""
        known = self.headers.get("Authorization") == "Basic dTpw"
        self.send_response(200 if self.path != "/locked" or known else 401)
        self.end_headers()
        self.wfile.write(b"text")

    def log_message(self, *words: object) -> None:
        """Write no log."""


@pytest.fixture
def url() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_daemon_is_queried_with_its_password(url: str) -> None:
    assert fetch(Access(url), "/") == (200, "text")
    assert fetch(Access(url), "/locked")[0] == 401
    assert fetch(Access(url, username="u", password="p"), "/locked")[0] == 200  # noqa: S106 - of this test


def test_closed_port_gives_status_0() -> None:
    status, reason = fetch(Access("http://127.0.0.1:1"), "/")
    assert status == 0
    assert "refused" in reason


def test_other_addresses_are_refused() -> None:
    with pytest.raises(ValueError, match="not an"):
        fetch(Access("file:///etc/passwd"), "")


@pytest.mark.parametrize(
    ("ok", "began", "expected"), [(1, 1.4e9, True), (1, 1.6e9, None), (0, 1.4e9, False), (0, 1.6e9, False)]
)
def test_new_configuration_is_loaded_only_after_the_change(ok: int, began: float, *, expected: bool | None) -> None:
    assert loaded_since(METRICS.format(ok=ok), "prometheus", began) is expected


def test_missing_metric_is_none() -> None:
    assert metric_value("", "up") is None
    assert loaded_since("", "prometheus", 0) is None
