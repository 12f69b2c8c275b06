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
    """Return a hint with the most similar known word, or with all known words if none is similar."""
    names = [str(each) for each in known]
    near = difflib.get_close_matches(str(word), names, 1)
    return f"did you mean {near[0]}?" if near else f"known names: {', '.join(names) or 'none'}"


def target_problems(host: str, key: str, target: object, email: Mapping[str, Any]) -> list[Problem]:
    """Return the problems with one target of a receiver.

    Args:
        host: the Alertmanager host, for messages.
        key: the target's key, for the messages.
        target: a mapping with one kind and its settings.
        email: the common e-mail settings.
    """
    if not isinstance(target, dict) or len(target) != 1:
        remedy = "use one of email, slack and webhook with its settings, such as {webhook: {url: ...}}"
        return [make_problem([host], key, "must have exactly one target", remedy)]
    ((kind, settings),) = target.items()
    if kind not in KINDS:
        remedy = f"{meant(kind, KINDS)}; put other integrations into alertmanager_extra"
        return [make_problem([host], key, f"{kind} is not a known kind of target", remedy)]
    key = f"{key}.{kind}"
    if not isinstance(settings, dict):
        return [make_problem([host], key, "has no settings", f"use one or more of {', '.join(KINDS[kind])}")]
    problems = _unknown(host, key, settings, KINDS[kind])
    if kind == "email":
        return problems + _email_problems(host, key, {**email, **settings})
    if kind == "webhook":
        return problems + webhook_problems(host, key, settings)
    return problems + _url_problems(host, f"{key}.url", settings.get("url")) + _channel_problems(host, key, settings)


def webhook_problems(host: str, key: str, settings: Mapping[str, Any]) -> list[Problem]:
    """Return the problems with a webhook target."""
    problems = _url_problems(host, f"{key}.url", settings.get("url")) + _login_problems(host, key, settings)
    if "token" in settings:
        if "username" in settings:
            remedy = "remove either token or username and password"
            problems.append(make_problem([host], key, "has both token and username", remedy))
        problems += _filled_in(host, f"{key}.token", settings["token"], "set the token, preferably from Ansible Vault")
    return problems


def _unknown(host: str, key: str, settings: Mapping[str, Any], known: Iterable[str]) -> list[Problem]:
    return [
        make_problem([host], f"{key}.{name}", "is not a known key", meant(name, known))
        for name in settings
        if name not in known
    ]


def _filled_in(host: str, key: str, value: object, remedy: str) -> list[Problem]:
    why = placeholder(value)
    return [make_problem([host], key, why, remedy)] if why else []


def _url_problems(host: str, key: str, value: object) -> list[Problem]:
    remedy = "set the real URL, which starts with https:// or http://, or use the receiver none"
    if problems := _filled_in(host, key, value, remedy):
        return problems
    try:
        parts = urlsplit(str(value))
        sound = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is not a number
        sound = False
    sound = sound and not re.search(r"\s", str(value))
    return [] if sound else [make_problem([host], key, "is not an HTTP URL", remedy)]


def _login_problems(host: str, key: str, settings: Mapping[str, Any]) -> list[Problem]:
    if bool(settings.get("username")) != bool(settings.get("password")):
        has, lacks = ("username", "password") if settings.get("username") else ("password", "username")
        remedy = f"set {lacks} as well, or remove {has}"
        return [make_problem([host], f"{key}.{lacks}", f"is missing, but {has} is set", remedy)]
    if not settings.get("username"):
        return []
    return _filled_in(host, f"{key}.password", settings["password"], "set the password, preferably from Ansible Vault")


def _channel_problems(host: str, key: str, settings: Mapping[str, Any]) -> list[Problem]:
    if "channel" not in settings:
        return []
    remedy = "set a quoted channel such as '#alerts', or remove the line: the webhook has a default channel"
    return _filled_in(host, f"{key}.channel", settings["channel"], remedy)


def _email_problems(host: str, key: str, settings: Mapping[str, Any]) -> list[Problem]:
    to = settings.get("to")
    problems: list[Problem] = []
    remedy = "set the address of a monitored mailbox, or use the receiver `none`"
    for each in to if isinstance(to, list) and to else [to]:
        for one in str(each or "").split(","):
            problems += _address_problems(host, f"{key}.to", one, remedy)
    remedy = "set the sender address here or in alertmanager_email.from"
    problems += _address_problems(host, f"{key}.from", settings.get("from"), remedy)
    remedy = "set the mail server as host:port, such as mail.site:587, here or in alertmanager_email.smarthost"
    smarthost = str(settings.get("smarthost") or "").strip()
    if not smarthost:
        problems.append(make_problem([host], f"{key}.smarthost", "is missing, so no mail can be sent", remedy))
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
