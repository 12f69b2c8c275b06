"""Check the alert targets of a site: e-mail, Slack and webhooks.

Source of the schema: Alertmanager's documentation, "Configuration", sections email_config, slack_config, webhook_config
and http_config, as of 0.25 and 0.28.
"""

from __future__ import annotations

import difflib
import re
from email.utils import parseaddr
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ...module_utils.common.problems import make_problem
from ..common.placeholders import placeholder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...module_utils.common.problems import Problem

__all__ = ["KINDS", "meant", "target_problems", "webhook_problems"]

KINDS: dict[str, tuple[str, ...]] = {
    "email": ("to", "from", "smarthost", "username", "password", "require_tls", "hello", "send_resolved"),
    "slack": ("url", "channel", "send_resolved"),
    "webhook": ("url", "username", "password", "token", "ca_file", "send_resolved", "max_alerts"),
}
_SMARTHOST = re.compile(r"(?:\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})")
_ADDRESS = re.compile(r"[^@\s]+@[^@\s]+")
_LAST_PORT = 65535


def meant(word: str, known: Iterable[str]) -> str:
    """Return a hint with the closest known word, or with all known words if none is close."""
    names = [str(each) for each in known]
    near = difflib.get_close_matches(str(word), names, 1)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(names) or 'none'}"


def target_problems(host: str, key: str, target: object, email: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of one target of a receiver.

    Args:
        host: the host of Alertmanager, for the messages.
        key: the target's key, for the messages.
        target: a mapping with one kind and its settings.
        email: the common e-mail settings.
    """
    if not isinstance(target, dict) or len(target) != 1:
        remedy = "write one of email, slack and webhook with its settings, such as {webhook: {url: ...}}"
        return [make_problem([host], key, "is not one target", remedy)]
    ((kind, settings),) = target.items()
    if kind not in KINDS:
        remedy = f"{meant(kind, KINDS)}; others go into alertmanager_extra"
        return [make_problem([host], key, f"knows no {kind}", remedy)]
    key = f"{key}.{kind}"
    if not isinstance(settings, dict):
        return [make_problem([host], key, "has no settings", f"known are {', '.join(KINDS[kind])}")]
    problems = _unknown(host, key, settings, KINDS[kind])
    if kind == "email":
        return problems + _email_problems(host, key, {**email, **settings})
    if kind == "webhook":
        return problems + webhook_problems(host, key, settings)
    return problems + _url_problems(host, f"{key}.url", settings.get("url")) + _channel_problems(host, key, settings)


def webhook_problems(host: str, key: str, settings: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of a webhook target."""
    problems = _url_problems(host, f"{key}.url", settings.get("url")) + _login_problems(host, key, settings)
    if "token" in settings:
        if "username" in settings:
            remedy = "a webhook takes one of both: take token or username and password out"
            problems.append(make_problem([host], key, "has both token and username", remedy))
        problems += _filled_in(host, f"{key}.token", settings["token"], "write the token, best from the vault")
    return problems


def _unknown(host: str, key: str, settings: Mapping[str, Any], known: Iterable[str]) -> list[Problem]:
    return [
        make_problem([host], f"{key}.{name}", "is not known", meant(name, known))
        for name in settings
        if name not in known
    ]


def _filled_in(host: str, key: str, value: object, remedy: str) -> list[Problem]:
    why = placeholder(value)
    return [make_problem([host], key, why, remedy)] if why else []


def _url_problems(host: str, key: str, value: object) -> list[Problem]:
    remedy = "write the real address, which begins with https:// or http://, or let alerts go to none"
    if problems := _filled_in(host, key, value, remedy):
        return problems
    try:
        parts = urlsplit(str(value))
        sound = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is not a number
        sound = False
    sound = sound and not re.search(r"\s", str(value))
    return [] if sound else [make_problem([host], key, "is not an address of HTTP", remedy)]


def _login_problems(host: str, key: str, settings: Mapping[str, Any]) -> list[Problem]:
    if bool(settings.get("username")) != bool(settings.get("password")):
        has, lacks = ("username", "password") if settings.get("username") else ("password", "username")
        remedy = f"write {lacks}, too, or take {has} out"
        return [make_problem([host], f"{key}.{lacks}", f"is missing, and {has} is there", remedy)]
    if not settings.get("username"):
        return []
    return _filled_in(host, f"{key}.password", settings["password"], "write the password, best from the vault")


def _channel_problems(host: str, key: str, settings: Mapping[str, Any]) -> list[Problem]:
    if "channel" not in settings:
        return []
    remedy = "write the channel, such as '#alerts' in quotes, or take the line out: a webhook has its own channel"
    return _filled_in(host, f"{key}.channel", settings["channel"], remedy)


def _email_problems(host: str, key: str, settings: Mapping[str, Any]) -> list[Problem]:
    to = settings.get("to")
    problems: list[Problem] = []
    remedy = "write the address of somebody who reads it, or let alerts go to none"
    for each in to if isinstance(to, list) and to else [to]:
        for one in str(each or "").split(","):
            problems += _address_problems(host, f"{key}.to", one, remedy)
    remedy = "write the address that mail comes from, here or for all in alertmanager_email.from"
    problems += _address_problems(host, f"{key}.from", settings.get("from"), remedy)
    remedy = (
        "write the mail server as host:port, such as mail.site:587, here or for all in alertmanager_email.smarthost"
    )
    smarthost = str(settings.get("smarthost") or "").strip()
    if not smarthost:
        problems.append(make_problem([host], f"{key}.smarthost", "is missing, so no mail can leave", remedy))
    elif found := _filled_in(host, f"{key}.smarthost", smarthost, remedy):
        problems += found
    else:
        match = _SMARTHOST.fullmatch(smarthost)
        if not match or not 0 < int(match[1]) <= _LAST_PORT:
            problems.append(make_problem([host], f"{key}.smarthost", f"{smarthost!r} is not host:port", remedy))
    return problems + _login_problems(host, key, settings)


def _address_problems(host: str, key: str, value: object, remedy: str) -> list[Problem]:
    address = parseaddr(str(value or ""))[1] or str(value or "")
    if problems := _filled_in(host, key, address, remedy):
        return problems
    if not _ADDRESS.fullmatch(address):
        return [make_problem([host], key, f"{address!r} is not an e-mail address", remedy)]
    return []
