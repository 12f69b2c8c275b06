"""Tests of probing a daemon that requires a client certificate and a password."""

from __future__ import annotations

import base64
import http.server
import ssl
import subprocess
import threading
import time
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.modules.daemon_reload import Access, fetch
from ansible_collections.busbar.cluster.plugins.plugin_utils.access import tls_certificate as tls

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOGIN = base64.b64encode(b"prometheus:secret").decode()


class _Guarded(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Answer only with the right password."""
        known = self.headers.get("Authorization") == f"Basic {LOGIN}"
        self.send_response(200 if known else 401)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Write no log."""


@pytest.fixture(name="access")
def _access(tmp_path: Path) -> Iterator[Access]:
    """Start a TLS daemon that requires client certificates of the same authority."""
    key, now = tmp_path / "host.key", int(time.time())
    subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-m", "PEM", "-N", "", "-f", str(key)], check=True)
    authority, public = tls.make_authority("alpha", now), (tmp_path / "host.key.pub").read_text()
    (tmp_path / "host.crt").write_text(tls.sign_host(public, authority, names=["127.0.0.1"], now=now, days=1))
    (tmp_path / "ca.crt").write_text(tls.authority_certificate(authority))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(tmp_path / "ca.crt"))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(tmp_path / "host.crt", key)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Guarded) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"https://127.0.0.1:{server.server_address[1]}"
        yield Access(url, str(tmp_path / "ca.crt"), "prometheus", "secret", str(tmp_path / "host.crt"), str(key))
        server.shutdown()
        thread.join()


def test_certificate_and_password_are_accepted(access: Access) -> None:
    assert fetch(access, "/")[0] == 200
    assert fetch(access._replace(password="wrong"), "/")[0] == 401  # noqa: S106 - it opens nothing
    assert fetch(access._replace(username=""), "/")[0] == 401


def test_connection_without_certificate_or_ca_fails(access: Access) -> None:
    for other in (access._replace(certificate_file="", key_file=""), access._replace(ca_file="")):
        status, reason = fetch(other, "/")
        assert status == 0
        assert reason
