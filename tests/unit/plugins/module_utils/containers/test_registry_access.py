"""Whether a registry takes a login: what it may answer, and where the password goes."""

from __future__ import annotations

import base64
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.containers.registry_access import (
    ACCEPTED,
    REFUSED,
    UNKNOWN,
    Access,
    registry_access,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "s3cret"  # noqa: S105 - a made-up one
BASIC = "Basic " + base64.b64encode(f"robot:{SECRET}".encode()).decode()
BEARER = 'Bearer realm="https://auth.example.com/token",service="reg",scope="x"'
Answers = dict[tuple[str, str], tuple[int, str]]


def tried(answers: Answers, *, http: bool = False) -> tuple[Access, list[tuple[str, str]]]:
    """What is found with these answers, and what was asked."""
    asked: list[tuple[str, str]] = []

    def ask(address: str, authorization: str) -> tuple[int, str]:
        asked.append((address, authorization))
        if (address, authorization) not in answers:
            message = "no route to host"
            raise OSError(message)
        return answers[address, authorization]

    return registry_access("reg.example.com", "robot", SECRET, http=http, ask=ask), asked


BASE = ("https://reg.example.com/v2/", "")
TOKEN = ("https://auth.example.com/token?service=reg", BASIC)
OWN = ("https://reg.example.com/v2/", BASIC)
ASKS = 'Basic realm="x"'


@pytest.mark.parametrize(
    ("answers", "state", "words"),
    [
        ({BASE: (200, "")}, ACCEPTED, "nobody"),
        ({BASE: (401, BEARER), TOKEN: (200, "")}, ACCEPTED, "took"),
        ({BASE: (401, BEARER), TOKEN: (401, "")}, REFUSED, "401"),
        ({BASE: (401, BEARER), TOKEN: (403, "")}, REFUSED, "403"),
        ({BASE: (401, BEARER), TOKEN: (500, "")}, UNKNOWN, "500"),
        ({BASE: (401, ASKS), OWN: (200, "")}, ACCEPTED, "took"),
        ({BASE: (401, ASKS), OWN: (401, "")}, REFUSED, "401"),
        ({BASE: (404, "")}, UNKNOWN, "/v2/ answers 404"),
        ({BASE: (401, "")}, UNKNOWN, "/v2/ answers 401"),
        ({BASE: (302, "")}, UNKNOWN, "/v2/ answers 302"),
        ({BASE: (401, "Bearer")}, UNKNOWN, "another address"),
        ({}, UNKNOWN, "nothing answers: no route to host"),
    ],
)
def test_every_answer_has_its_meaning(answers: Answers, state: str, words: str) -> None:
    found, _ = tried(answers)
    assert found.state == state
    assert words in found.said
    assert SECRET not in found.said


def test_the_password_goes_nowhere_without_tls() -> None:
    plain = 'Bearer realm="http://auth.example.com/token"'
    found, asked = tried({BASE: (401, plain)})
    assert found.state == UNKNOWN
    assert asked == [BASE]


def test_without_tls_only_where_the_site_says_so() -> None:
    base = ("http://reg.example.com/v2/", "")
    found, asked = tried({base: (401, ASKS), (base[0], BASIC): (200, "")}, http=True)
    assert found.state == ACCEPTED
    assert asked == [base, (base[0], BASIC)]


class _Registry(BaseHTTPRequestHandler):
    """Takes one password; sends everybody else elsewhere."""

    def do_GET(self) -> None:
        """Answer."""
        given = self.headers.get("Authorization")
        self.send_response(200 if given == BASIC else 307 if given else 401)
        self.send_header("WWW-Authenticate", 'Basic realm="x"')
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
        """Say nothing."""


@pytest.fixture
def registry() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_over_a_real_connection(registry: str) -> None:
    assert registry_access(registry, "robot", SECRET, http=True) == (ACCEPTED, "it took the login")
    # A redirection is not followed: the password would go along.
    assert registry_access(registry, "robot", "wrong", http=True) == (UNKNOWN, "the login is answered with 307")


def test_nobody_there() -> None:
    found = registry_access("127.0.0.1:9", "robot", SECRET, http=True)
    assert found.state == UNKNOWN
    assert found.said.startswith("nothing answers: ")
