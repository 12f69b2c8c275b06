"""Check whether a container registry accepts a login, with the first steps of a pull.

Source: the "Token Authentication" pages of the CNCF's Distribution: GET /v2/ answers 200, or 401 with the
authentication method; `Bearer` names the URL that issues tokens, `Basic` takes the password itself. Enroot looks up
the login for that URL by its host (see enroot_credentials).
"""

from __future__ import annotations

import base64
import re
import urllib.error
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["ACCEPTED", "MISSING", "REFUSED", "UNKNOWN", "Access", "Login", "fetch", "registry_access"]

ACCEPTED, REFUSED, MISSING, UNKNOWN = "accepted", "refused", "missing", "unknown"
_TIMEOUT_S = 10
_OK, _UNAUTHORIZED, _FORBIDDEN = 200, 401, 403
_PARAMETER = re.compile(r'(\w+)="([^"]*)"')


class Access(NamedTuple):
    """Result of a login test: one of the states above, the reason, and the token host if it is a separate one."""

    state: str
    detail: str
    tokens: str = ""


class Login(NamedTuple):
    """A login for a host, with the port to test; the password is None if the user's shell evaluates it."""

    machine: str
    login: str
    password: str | None
    port: int | None = None

    @property
    def basic(self) -> str:
        """The Authorization header for HTTP basic authentication."""
        return "Basic " + base64.b64encode(f"{self.login}:{self.password}".encode()).decode("ascii")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Rejects redirects, so that the password is sent only to the requested URL."""

    def redirect_request(self, *_: object) -> None:
        """Reject the redirect."""


def fetch(address: str, authorization: str = "") -> tuple[int, str]:
    """Return the HTTP status of a URL, and its WWW-Authenticate header.

    Raises:
        OSError: the registry did not answer.
    """
    request = urllib.request.Request(address)  # noqa: S310 - only http and https URLs
    if authorization:
        request.add_unredirected_header("Authorization", authorization)
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=_TIMEOUT_S) as answer:
            return answer.status, ""
    except urllib.error.HTTPError as exc:
        return exc.code, exc.headers.get("WWW-Authenticate") or ""


def registry_access(
    login: Login,
    others: Mapping[str, Login],
    *,
    http: bool = False,
    ask: Callable[[str, str], tuple[int, str]] = fetch,
) -> Access:
    """Return whether a registry accepts a login; the result does not contain the password.

    Args:
        login: login to test, and its registry.
        others: logins of the same user by machine, for the token host.
        http: whether to connect without TLS.
        ask: returns status and WWW-Authenticate header of a URL, given an Authorization header; raises OSError if
            there is no answer.
    """
    scheme = "http" if http else "https"
    address = f"{scheme}://{login.machine}{f':{login.port}' if login.port else ''}/v2/"
    try:
        status, wanted = ask(address, "")
        if status == _OK:
            return Access(ACCEPTED, "it accepts anonymous access")
        kind, _, rest = wanted.partition(" ")
        if status != _UNAUTHORIZED or kind.lower() not in {"basic", "bearer"}:
            return Access(UNKNOWN, f"/v2/ answers with HTTP status {status}, which is not a registry's login request")
        if kind.lower() == "bearer":
            address = _token_address(dict(_PARAMETER.findall(rest)))
            if not address.startswith(("https://", f"{scheme}://")):
                return Access(UNKNOWN, "it requests the password without TLS at another URL")
        host = urllib.parse.urlsplit(address).hostname or ""
        if host == login.machine.lower():
            return _login_result(ask, address, login, "")
        return _login_result(ask, address, {name.lower(): login for name, login in others.items()}.get(host), host)
    except (OSError, ValueError) as exc:
        reason = getattr(exc, "reason", None) or exc
        return Access(UNKNOWN, f"no answer: {reason}")


def _login_result(ask: Callable[[str, str], tuple[int, str]], address: str, login: Login | None, tokens: str) -> Access:
    """Return whether a URL accepts a login; `tokens` is the URL's host if it differs from the registry."""
    if login is None:
        return Access(MISSING, f"its tokens come from {tokens}, for which no entry exists", tokens)
    if login.password is None:
        return Access(UNKNOWN, "a command prints the password at each import", tokens)
    state, detail, _ = _status_result(ask(address, login.basic)[0])
    return Access(state, f"{tokens}: {detail}" if tokens else detail, tokens)


def _token_address(parameters: Mapping[str, str]) -> str:
    service = parameters.get("service")
    query = f"?{urllib.parse.urlencode({'service': service})}" if service else ""
    return parameters.get("realm", "") + query


def _status_result(status: int) -> Access:
    if status == _OK:
        return Access(ACCEPTED, "it accepted the login")
    if status in {_UNAUTHORIZED, _FORBIDDEN}:
        return Access(REFUSED, f"it answers with HTTP status {status}")
    return Access(UNKNOWN, f"it answers the login with HTTP status {status}")
