"""Tests of the login with an identity provider: authorised users, and attacks on the flow."""

from __future__ import annotations

import http.client
import json
import re
import shlex
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import pytest
from portal_host import PASSWORDS, TOP
from portal_session import Answer, Session

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("jupyterhub")

OK, FOUND, BAD_REQUEST, UNAUTHORIZED, FORBIDDEN = 200, 302, 400, 401, 403
PORT = 9443
SECRET = "the hub's own, of 2026"  # noqa: S105 - of the test's provider
UNIT = "test-identity-provider"
FOLDER = "/run/test-identity-provider"
# Logins at the provider and their claims. The logins differ from the cluster's user names.
CLAIMS: dict[str, dict[str, Any]] = {
    "a.liddell": {"preferred_username": "alice", "groups": ["lab", "portal"]},
    "b.builder": {"preferred_username": "bob", "groups": ["lab"]},
    "visitor": {"preferred_username": "carol", "groups": ["portal"]},
    "mallory": {"preferred_username": "root", "groups": ["portal"]},
    "service": {"preferred_username": "slurm", "groups": ["portal"]},
    "service2": {"preferred_username": "nobody", "groups": ["portal"]},
    "crafty": {"preferred_username": "../alice", "groups": ["portal"]},
    "capital": {"preferred_username": "Alice", "groups": ["portal"]},
    "listed": {"preferred_username": ["alice"], "groups": ["portal"]},
    "nameless": {"groups": ["portal"]},
    "fooling": {"preferred_username": "alice", "groups": "portal"},
}
PASSWORD = "whatever they chose"  # noqa: S105


class Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirect."""

    def redirect_request(self, *_: object) -> None:
        """Return nothing, so that the redirect is not followed."""


class Person(Session):
    """A browser that goes to the provider and back, step by step."""

    def step(self, url: str, form: dict[str, str] | None = None) -> tuple[int, str, str]:
        """Request a page without following redirects; return status, redirect target and text."""
        handlers = (urllib.request.HTTPSHandler(context=self.context), urllib.request.HTTPCookieProcessor(self.cookies))
        data = urlencode(form).encode() if form is not None else None
        request = urllib.request.Request(url, data, {"Sec-Fetch-Mode": "navigate"})  # noqa: S310 - https only
        try:
            with urllib.request.build_opener(Stay, *handlers).open(request, timeout=60) as answer:
                return answer.status, "", answer.read().decode()
        except urllib.error.HTTPError as exc:
            return exc.code, exc.headers.get("Location", ""), exc.read().decode(errors="replace")

    def begun(self) -> str:
        """Return the URL at the provider to which the hub redirects."""
        status, place, _ = self.step(f"{self.base}/hub/oauth_login?next=%2Fhub%2Fhome")
        assert status == FOUND, place
        return place

    def returned(self, login: str, place: str = "") -> str:
        """Log in at the provider and return the redirect URL."""
        url = place or self.begun()
        asked = dict(parse_qsl(urlsplit(url).query))
        status, back, text = self.step(url.partition("?")[0], asked | {"login": login, "password": PASSWORD})
        assert status == FOUND, text
        return back

    def comes(self, back: str) -> Answer:
        """Deliver a code to the hub."""
        return self.ask(back)

    def is_in(self) -> bool:
        """Return whether the hub session is logged in."""
        return "/hub/login" not in self.ask("/hub/home").url


@pytest.fixture(scope="module")
def provider(portal: Cluster, again: Callable[..., subprocess.CompletedProcess[str]]) -> Iterator[Cluster]:
    """Start a provider on the login node, and configure the portal to use it."""
    host = Session(portal).host
    site = {
        "client_id": "portal",
        "client_secret": SECRET,
        "redirect_uri": f"https://{host}:8000/hub/oauth_callback",
        "people": {login: {"password": PASSWORD, "claims": claims} for login, claims in CLAIMS.items()},
    }
    program = (TOP / "tests/fixtures/oidc_provider.py").read_text(encoding="utf-8")
    for name, text in (("provider.py", program), ("people.json", json.dumps(site))):
        portal.exec("login", f"mkdir -p {FOLDER}; echo {shlex.quote(text)} >{FOLDER}/{name}")
    keys = "/etc/busbar/tls/host.crt /etc/busbar/tls/host.key"
    start = f"systemd-run --unit={UNIT} python3 {FOLDER}/provider.py {PORT} {keys} {FOLDER}/people.json"
    portal.exec("login", start)
    options = {
        "jupyterhub_oidc_client_id": "portal",
        "jupyterhub_oidc_client_secret": SECRET,
        "jupyterhub_oidc_authorize_url": f"https://{host}:{PORT}/authorize",
        "jupyterhub_oidc_token_url": f"https://{host}:{PORT}/token",
        "jupyterhub_oidc_userdata_url": f"https://{host}:{PORT}/userinfo",
        "jupyterhub_oidc_callback_url": site["redirect_uri"],
        "jupyterhub_oidc_groups": ["portal"],
        "jupyterhub_oidc_ca_file": "/etc/busbar/tls/ca.crt",
    }
    done = again("--diff", "-vvv", "-e", json.dumps(options))
    assert done.returncode == 0, done.stdout
    # -vvv itself shows the options of the command line; no task shows them.
    shown = [line for line in done.stdout.splitlines() if SECRET in line and "jupyterhub_wheels" not in line]
    assert shown == []
    portal.wait_until(lambda: Session(portal).ask("/hub/login").status == OK, "the hub is not back", 60)
    yield portal
    portal.exec("login", f"systemctl stop {UNIT}; rm -rf {FOLDER}")


def token(portal: Cluster, form: dict[str, str]) -> int:
    """Request a token from the provider without the hub and return the status."""
    session = Session(portal)
    connection = http.client.HTTPSConnection(session.host, PORT, context=session.context, timeout=30)
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    connection.request("POST", "/token", urlencode(form), headers)
    return connection.getresponse().status


def test_only_allowed_cluster_users_can_log_in(provider: Cluster) -> None:
    alice = Person(provider)
    assert "Sign in with the site&#39;s account" in alice.ask("/hub/login").text
    answer = alice.comes(alice.returned("a.liddell"))
    assert (answer.status, urlsplit(answer.url).path) == (OK, "/hub/home"), answer
    assert re.search(r'<span class="me-1">alice</span>', answer.text)
    for login in sorted(CLAIMS.keys() - {"a.liddell"}):
        stranger = Person(provider)
        assert stranger.comes(stranger.returned(login)).status >= BAD_REQUEST, login
        assert not stranger.is_in(), login
    log = provider.exec("login", "journalctl -u busbar-portal-hub -o cat").stdout
    assert "login of 'bob' refused: not in an allowed group" in log
    assert "login of 'carol' refused: no cluster account that may log in" in log
    assert SECRET not in log


def test_code_is_useless_in_another_browser(provider: Cluster) -> None:
    alice, mallory, other = Person(provider), Person(provider), Person(provider)
    back = alice.returned("a.liddell")
    code = parse_qs(urlsplit(back).query)["code"][0]
    # An attacker with the code has no cookie, or one of another login: neither its state nor its PKCE verifier.
    assert mallory.comes(back).status == BAD_REQUEST
    own = dict(parse_qsl(urlsplit(mallory.begun()).query))
    assert mallory.comes(back).status == BAD_REQUEST
    callback = f"{mallory.base}/hub/oauth_callback"
    own = dict(parse_qsl(urlsplit(mallory.begun()).query))
    assert mallory.comes(f"{callback}?{urlencode({'code': code, 'state': own['state']})}").status >= BAD_REQUEST
    assert not mallory.is_in()
    # A link that logs another user in as mallory lacks the state of that user's browser.
    other.begun()
    assert other.comes(mallory.returned("a.liddell")).status == BAD_REQUEST
    assert not other.is_in()


def test_used_code_cannot_be_used_again(provider: Cluster) -> None:
    alice = Person(provider)
    back = alice.returned("a.liddell")
    before = {(one.name, one.path): one for one in alice.cookies}
    assert alice.comes(back).status == OK
    again = Person(provider)
    for one in before.values():
        again.cookies.set_cookie(one)
    assert again.comes(back).status >= BAD_REQUEST
    assert not again.is_in()


def test_password_form_cannot_bypass_the_provider(provider: Cluster) -> None:
    mallory = Person(provider)
    back = dict(parse_qsl(urlsplit(mallory.returned("a.liddell")).query))
    assert mallory.login("alice", PASSWORDS["alice"]).status >= BAD_REQUEST
    mallory.ask("/hub/login")
    assert mallory.ask("/hub/login", {"code": back["code"]}).status >= BAD_REQUEST
    assert not mallory.is_in()


def test_locked_user_cannot_log_in(provider: Cluster) -> None:
    alice = Person(provider)
    provider.exec("login", "usermod --expiredate 1 alice")
    try:
        assert alice.comes(alice.returned("a.liddell")).status == FORBIDDEN
        assert not alice.is_in()
    finally:
        provider.exec("login", "usermod --expiredate '' alice")
    assert alice.comes(alice.returned("a.liddell")).status == OK


def test_client_secret_is_readable_only_by_the_hub(provider: Cluster) -> None:
    place = "/etc/jupyterhub/oidc_secret"
    assert provider.exec("login", f"stat -c '%U %G %a' {place}").stdout == "root jupyterhub 640\n"
    assert provider.exec("login", f"cat {place}", user="alice", check=False).returncode != 0
    places = "/etc/jupyterhub /etc/busbar /usr/local/lib/busbar-portal /var/lib/jupyterhub"
    assert provider.exec("login", f"grep -rlF {shlex.quote(SECRET)} {places}").stdout == f"{place}\n"


def test_test_provider_refuses_invalid_requests(provider: Cluster) -> None:
    """A provider that accepted everything would not test the hub."""
    alice = Person(provider)
    asked = dict(parse_qsl(urlsplit(alice.begun()).query))
    authorize = f"https://{alice.host}:{PORT}/authorize"
    for change in ({"redirect_uri": "https://evil.example.org"}, {"client_id": "other"}, {"code_challenge": ""}):
        assert alice.step(f"{authorize}?{urlencode(asked | change)}")[0] == BAD_REQUEST, change
    code = parse_qs(urlsplit(alice.returned("a.liddell")).query)["code"][0]
    good = {
        "client_id": "portal",
        "client_secret": SECRET,
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": asked["redirect_uri"],
        "code_verifier": "guessed",
    }
    assert token(provider, good | {"client_secret": "guessed"}) == UNAUTHORIZED
    assert token(provider, good | {"redirect_uri": "https://evil.example.org"}) == BAD_REQUEST
    assert token(provider, good) == BAD_REQUEST
    assert token(provider, good | {"code": "guessed"}) == BAD_REQUEST
