"""Asks a container registry whether it takes a login: the first steps of every pull.

Source: the "Token Authentication" pages of the CNCF's Distribution: GET /v2/ answers 200, or 401 with the way to
authenticate; `Bearer` names the address that gives tokens, `Basic` takes the password itself.
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

__all__ = ["ACCEPTED", "REFUSED", "UNKNOWN", "Access", "fetch", "registry_access"]

ACCEPTED, REFUSED, UNKNOWN = "accepted", "refused", "unknown"
_TIMEOUT_S = 10
_OK, _UNAUTHORIZED, _FORBIDDEN = 200, 401, 403
_PARAMETER = re.compile(r'(\w+)="([^"]*)"')


class Access(NamedTuple):
    """What a registry said: one of the states above, and in words why."""

    state: str
    said: str


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: a password goes to the address that was asked and to no other."""

    def redirect_request(self, *_: object) -> None:
        """Return that there is nothing to follow."""


def fetch(address: str, authorization: str = "") -> tuple[int, str]:
    """Return the status of an address, and how it wants a login.

    Raises:
        OSError: nothing answered.
    """
    request = urllib.request.Request(address)  # noqa: S310 - the caller builds http and https alone
    if authorization:
        request.add_unredirected_header("Authorization", authorization)
    try:
        with urllib.request.build_opener(_Stay).open(request, timeout=_TIMEOUT_S) as answer:
            return answer.status, ""
    except urllib.error.HTTPError as exc:
        return exc.code, exc.headers.get("WWW-Authenticate") or ""


def registry_access(
    machine: str,
    login: str,
    password: str,
    *,
    http: bool = False,
    ask: Callable[[str, str], tuple[int, str]] = fetch,
) -> Access:
    """Return whether a registry takes a login. No word holds the password.

    Args:
        machine: name of the registry, with a port if need be.
        login: login there.
        password: password or token.
        http: whether it is spoken to without TLS.
        ask: returns the status of an address and how it wants a login, given what authorizes; raises OSError when
            nothing answers.
    """
    basic = "Basic " + base64.b64encode(f"{login}:{password}".encode()).decode("ascii")
    scheme = "http" if http else "https"
    try:
        status, wanted = ask(f"{scheme}://{machine}/v2/", "")
        if status == _OK:
            return Access(ACCEPTED, "it asks nobody for a login")
        kind, _, rest = wanted.partition(" ")
        if status != _UNAUTHORIZED or kind.lower() not in {"basic", "bearer"}:
            return Access(UNKNOWN, f"/v2/ answers {status}, which is no registry's way to ask for a login")
        address = f"{scheme}://{machine}/v2/"
        if kind.lower() == "bearer":
            address = _token_address(dict(_PARAMETER.findall(rest)))
            if not address.startswith(("https://", f"{scheme}://")):
                return Access(UNKNOWN, "it wants the password without TLS at another address")
        return _judged(ask(address, basic)[0])
    except (OSError, ValueError) as exc:
        reason = getattr(exc, "reason", None) or exc
        return Access(UNKNOWN, f"nothing answers: {reason}")


def _token_address(parameters: Mapping[str, str]) -> str:
    service = parameters.get("service")
    query = f"?{urllib.parse.urlencode({'service': service})}" if service else ""
    return parameters.get("realm", "") + query


def _judged(status: int) -> Access:
    if status == _OK:
        return Access(ACCEPTED, "it took the login")
    if status in {_UNAUTHORIZED, _FORBIDDEN}:
        return Access(REFUSED, f"it answers {status}")
    return Access(UNKNOWN, f"the login is answered with {status}")
