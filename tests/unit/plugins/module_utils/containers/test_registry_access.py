"""Tests of whether a registry accepts a login, for each possible reply, and of which hosts get the password."""

from __future__ import annotations

import base64
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.containers.registry_access import (
    ACCEPTED,
    MISSING,
    REFUSED,
    UNKNOWN,
    Access,
    Login,
    registry_access,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "s3cret"  # noqa: S105 - a made-up one
BASIC = "Basic " + base64.b64encode(f"robot:{SECRET}".encode()).decode()
BEARER = 'Bearer realm="https://auth.example.com/token",service="reg",scope="x"'
Answers = dict[tuple[str, str], tuple[int, str]]


MINE = Login("reg.example.com", "robot", SECRET)
OF_TOKENS = Login("auth.example.com", "robot", SECRET)


def tried(
    answers: Answers, *, http: bool = False, mine: Login = MINE, others: tuple[Login, ...] = (OF_TOKENS,)
) -> tuple[Access, list[tuple[str, str]]]:
    """Return the result of a login against these replies, and the requests."""
    asked: list[tuple[str, str]] = []

    def ask(address: str, authorization: str) -> tuple[int, str]:
        asked.append((address, authorization))
        if (address, authorization) not in answers:
            message = "no route to host"
            raise OSError(message)
        return answers[address, authorization]

    known = {login.machine: login for login in (mine, *others)}
    return registry_access(mine, known, http=http, ask=ask), asked


BASE = ("https://reg.example.com/v2/", "")
TOKEN = ("https://auth.example.com/token?service=reg", BASIC)
OWN = ("https://reg.example.com/v2/", BASIC)
ASKS = 'Basic realm="x"'


@pytest.mark.parametrize(
    ("answers", "state", "words"),
    [
        ({BASE: (200, "")}, ACCEPTED, "anonymous"),
        ({BASE: (401, BEARER), TOKEN: (200, "")}, ACCEPTED, "accepted"),
        ({BASE: (401, BEARER), TOKEN: (401, "")}, REFUSED, "401"),
        ({BASE: (401, BEARER), TOKEN: (403, "")}, REFUSED, "403"),
        ({BASE: (401, BEARER), TOKEN: (500, "")}, UNKNOWN, "500"),
        ({BASE: (401, ASKS), OWN: (200, "")}, ACCEPTED, "accepted"),
        ({BASE: (401, ASKS), OWN: (401, "")}, REFUSED, "401"),
        ({BASE: (404, "")}, UNKNOWN, "/v2/ answers with HTTP status 404"),
        ({BASE: (401, "")}, UNKNOWN, "/v2/ answers with HTTP status 401"),
        ({BASE: (302, "")}, UNKNOWN, "/v2/ answers with HTTP status 302"),
        ({BASE: (401, "Bearer")}, UNKNOWN, "another URL"),
        ({}, UNKNOWN, "no answer: no route to host"),
    ],
)
def test_each_reply_gives_a_state(answers: Answers, state: str, words: str) -> None:
    found, _ = tried(answers)
    assert found.state == state
    assert words in found.detail
    assert SECRET not in found.detail


def test_registry_is_queried_on_its_port() -> None:
    address = "https://reg.example.com:5001/v2/"
    found, asked = tried({(address, ""): (401, ASKS), (address, BASIC): (200, "")}, mine=MINE._replace(port=5001))
    assert found.state == ACCEPTED
    assert asked == [(address, ""), (address, BASIC)]


def test_token_host_is_queried_only_with_its_own_login() -> None:
    """Enroot's curl looks up credentials by the host of the token service and sends none without a line (issue 241)."""
    found, asked = tried({BASE: (401, BEARER)}, others=())
    assert found == (
        MISSING,
        "its tokens come from auth.example.com, for which no entry exists",
        "auth.example.com",
    )
    assert asked == [BASE]
    other = "Basic " + base64.b64encode(b"of-tokens:x").decode()
    found, asked = tried(
        {BASE: (401, BEARER), (TOKEN[0], other): (401, "")}, others=(Login("auth.example.com", "of-tokens", "x"),)
    )
    assert (found.state, found.detail) == (REFUSED, "auth.example.com: it answers with HTTP status 401")
    # A token service on the registry's own host, on any port, needs no other login.
    same = ("https://reg.example.com:8443/token", BASIC)
    found, _ = tried({BASE: (401, f'Bearer realm="{same[0]}"'), same: (200, "")}, others=())
    assert found.state == ACCEPTED


def test_password_from_a_command_is_not_tried() -> None:
    found, asked = tried({BASE: (401, ASKS)}, mine=MINE._replace(password=None))
    assert (found.state, asked) == (UNKNOWN, [BASE])
    assert found.detail == "a command prints the password at each import"


def test_password_is_not_sent_without_tls() -> None:
    plain = 'Bearer realm="http://auth.example.com/token"'
    found, asked = tried({BASE: (401, plain)})
    assert found.state == UNKNOWN
    assert asked == [BASE]


def test_http_is_used_only_if_configured() -> None:
    base = ("http://reg.example.com/v2/", "")
    found, asked = tried({base: (401, ASKS), (base[0], BASIC): (200, "")}, http=True)
    assert found.state == ACCEPTED
    assert asked == [base, (base[0], BASIC)]


class _Registry(BaseHTTPRequestHandler):
    """A registry that accepts one password and redirects all other requests."""

    def do_GET(self) -> None:
        """Answer the request."""
        given = self.headers.get("Authorization")
        self.send_response(200 if given == BASIC else 307 if given else 401)
        self.send_header("WWW-Authenticate", 'Basic realm="x"')
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - name of the library
        """Write no log."""


@pytest.fixture
def registry() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_login_over_a_real_connection(registry: str) -> None:
    host, port = registry.split(":")
    mine = Login(host, "robot", SECRET, int(port))
    assert registry_access(mine, {host: mine}, http=True) == (ACCEPTED, "it accepted the login", "")
    # Redirects are not followed because the password would be sent along.
    wrong = mine._replace(password="wrong")  # noqa: S106 - a made-up one
    assert registry_access(wrong, {}, http=True) == (UNKNOWN, "it answers the login with HTTP status 307", "")


def test_unreachable_registry_is_unknown() -> None:
    found = registry_access(Login("127.0.0.1", "robot", SECRET, 9), {}, http=True)
    assert found.state == UNKNOWN
    assert found.detail.startswith("no answer: ")
