"""Check the declared alert routing and targets of a site.

Source of the schema: Alertmanager's documentation, "Configuration", sections route, inhibit_rule,
time_interval, email_config, slack_config, webhook_config and http_config, as of 0.25 and 0.28.
"""

from __future__ import annotations

import difflib
import re
from email.utils import parseaddr
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ...module_utils.common.problems import make_problem
from ..common.placeholders import placeholder
from .prometheus_plan import duration_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ...module_utils.common.problems import Problem

SEVERITIES = ("critical", "warning", "info")
NONE, WATCHDOG, DEFAULT = "none", "busbar_watchdog", "default"
WAITS = ("group_wait", "group_interval", "repeat_interval")

_OWN_ROUTE = ("matchers", "receivers", "continue", "group_by", "mute_time_intervals", "active_time_intervals", *WAITS)
_CHECKED = (
    "receivers",
    "routes",
    "extra_routes",
    "email",
    "watchdog",
    "mute",
    "extra",
    "time_intervals",
    "inhibit_rules",
    "group_by",
    "retention",
    *WAITS,
)
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MATCHER = re.compile(r"\s*[A-Za-z_:][A-Za-z0-9_:]*\s*(?:=~|!~|!=|=)\s*\S.*", re.DOTALL)
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


def site_routing_problems(hosts: Sequence[str], variables: Mapping[str, Mapping[str, Any]]) -> list[Problem]:
    """Return the problems with the alert routing of the Alertmanager `hosts`."""
    problems = []
    for host in hosts:
        own = variables[host]
        found = {key: own[f"alertmanager_{key}"] for key in _CHECKED if f"alertmanager_{key}" in own}
        problems += routing_problems(found, host)
    return problems


def routing_problems(settings: Mapping[str, Any], host: str) -> list[Problem]:
    """Return the problems with the options of the `alertmanager` role.

    Args:
        settings: options without the role prefix; missing ones have their defaults.
        host: the Alertmanager host, for messages.
    """
    if problems := _kind_problems(settings, host):
        return problems
    problems = _receiver_problems(settings, host) + _severity_problems(settings, host)
    problems += _own_route_problems(settings, host) + _time_problems(settings, host)
    watchdog = settings.get("watchdog") or {}
    if watchdog:
        problems += webhook_problems(host, "alertmanager_watchdog", watchdog)
        if "interval" in watchdog:
            problems += _durations(host, {"alertmanager_watchdog.interval": watchdog["interval"]})
    problems += _label_problems(host, "alertmanager_group_by", settings.get("group_by") or [])
    problems += _durations(
        host, {f"alertmanager_{key}": settings[key] for key in (*WAITS, "retention") if key in settings}
    )
    return problems + _extra_problems(settings.get("extra") or {}, host)


def _names(value: object) -> list[str]:
    """Return one name or several as a list."""
    return [str(each) for each in value] if isinstance(value, list | tuple) else [str(value)]


def _known_receivers(settings: Mapping[str, Any]) -> list[str]:
    extra = (settings.get("extra") or {}).get("receivers") or []
    added = [str(each.get("name")) for each in extra if isinstance(each, dict)]
    return [NONE, *(str(name) for name in settings.get("receivers") or {}), *added]


def _kind_problems(settings: Mapping[str, Any], host: str) -> list[Problem]:
    kinds: dict[str, tuple[type, str]] = dict.fromkeys(
        ("receivers", "routes", "email", "watchdog", "mute", "extra"), (dict, "a mapping of names to values")
    ) | dict.fromkeys(("extra_routes", "time_intervals", "inhibit_rules", "group_by"), (list, "a list"))
    return [
        make_problem(
            [host], f"alertmanager_{key}", f"is not {words}", "see the examples in roles/alertmanager/README.md"
        )
        for key, (kind, words) in kinds.items()
        if settings.get(key) and not isinstance(settings[key], kind)
    ]


def _receiver_problems(settings: Mapping[str, Any], host: str) -> list[Problem]:
    problems = []
    for name, targets in (settings.get("receivers") or {}).items():
        key = f"alertmanager_receivers.{name}"
        if name in {NONE, WATCHDOG} or not str(name).strip():
            problems.append(make_problem([host], key, "has a duplicate name", "rename it"))
        elif targets == NONE:
            continue
        elif not targets:
            remedy = "add email, slack or webhook, or use the receiver none to send no notification"
            problems.append(make_problem([host], key, "has no target", remedy))
        elif not isinstance(targets, list):
            remedy = "write a list, such as [{webhook: {url: ...}}]"
            problems.append(make_problem([host], key, "is not a list of targets", remedy))
        else:
            for number, target in enumerate(targets):
                problems += target_problems(host, f"{key}[{number}]", target, settings.get("email") or {})
    return problems


def _severity_problems(settings: Mapping[str, Any], host: str) -> list[Problem]:
    problems = []
    for option in ("routes", "mute"):
        known = (*SEVERITIES, DEFAULT) if option == "routes" else SEVERITIES
        for severity, value in (settings.get(option) or {}).items():
            key = f"alertmanager_{option}.{severity}"
            if severity not in known:
                problems.append(make_problem([host], key, "is not a severity", meant(severity, known)))
            if option == "routes":
                problems += _name_problems(host, key, value, _known_receivers(settings))
            else:
                problems += _interval_problems(settings, host, key, value)
    return problems


def _name_problems(host: str, key: str, value: object, known: Iterable[str]) -> list[Problem]:
    if not value:
        return [make_problem([host], key, "names no receiver", "list one or more receivers, or use none")]
    return [
        make_problem(
            [host], key, f"receiver {name} does not exist", f"{meant(name, known)}; see alertmanager_receivers"
        )
        for name in _names(value)
        if name not in known
    ]


def _interval_problems(settings: Mapping[str, Any], host: str, key: str, value: object) -> list[Problem]:
    extra = (settings.get("extra") or {}).get("time_intervals") or []
    declared = [*(settings.get("time_intervals") or []), *extra]
    known = [str(each.get("name")) for each in declared if isinstance(each, dict)]
    return [
        make_problem(
            [host], key, f"interval {name} does not exist", f"{meant(name, known)}; see alertmanager_time_intervals"
        )
        for name in _names(value)
        if name not in known
    ]


def _own_route_problems(settings: Mapping[str, Any], host: str) -> list[Problem]:
    problems = []
    for number, route in enumerate(settings.get("extra_routes") or []):
        key = f"alertmanager_extra_routes[{number}]"
        if not isinstance(route, dict):
            problems.append(make_problem([host], key, "is not a route", "write matchers and receivers"))
            continue
        unknown = [name for name in route if name not in _OWN_ROUTE]
        problems += [
            make_problem([host], f"{key}.{name}", "is not a known key", meant(name, _OWN_ROUTE)) for name in unknown
        ]
        matchers = route.get("matchers")
        if (
            not isinstance(matchers, list)
            or not matchers
            or not all(_MATCHER.fullmatch(str(each)) for each in matchers)
        ):
            remedy = "list one or more matchers such as 'team=\"storage\"', with =, !=, =~ or !~"
            problems.append(make_problem([host], f"{key}.matchers", "has no matchers", remedy))
        problems += _name_problems(host, f"{key}.receivers", route.get("receivers"), _known_receivers(settings))
        for name in ("mute_time_intervals", "active_time_intervals"):
            problems += _interval_problems(settings, host, f"{key}.{name}", route.get(name) or [])
        problems += _label_problems(host, f"{key}.group_by", route.get("group_by") or [])
        problems += _durations(host, {f"{key}.{name}": route[name] for name in WAITS if name in route})
    return problems


def _time_problems(settings: Mapping[str, Any], host: str) -> list[Problem]:
    return [
        make_problem([host], f"alertmanager_time_intervals[{number}]", "has no name", "set name and time_intervals")
        for number, each in enumerate(settings.get("time_intervals") or [])
        if not isinstance(each, dict) or not each.get("name") or not each.get("time_intervals")
    ]


def _label_problems(host: str, key: str, labels: Iterable[object]) -> list[Problem]:
    remedy = "list labels, such as [cluster, alertname]"
    wrong = [label for label in labels if str(label) != "..." and not _LABEL.fullmatch(str(label))]
    return [make_problem([host], key, f"{label!r} is not a label", remedy) for label in wrong]


def _durations(host: str, values: Mapping[str, Any]) -> list[Problem]:
    problems = []
    for key, value in values.items():
        try:
            zero_is_fine = key.endswith("group_wait")
            if duration_seconds(str(value)) <= 0 and not zero_is_fine:
                problems.append(
                    make_problem([host], key, f"{value!r} is not greater than zero", "set a longer duration")
                )
        except ValueError:
            remedy = "use an integer with the unit s, m, h, d or w, such as 30s, 5m or 4h"
            problems.append(make_problem([host], key, f"{value!r} is not a duration", remedy))
    return problems


def _extra_problems(extra: Mapping[str, Any], host: str, key: str = "alertmanager_extra") -> list[Problem]:
    """Return the placeholder values in `alertmanager_extra`, which has Alertmanager's schema."""
    problems = []
    for name, value in extra.items() if isinstance(extra, dict) else enumerate(extra):
        place = f"{key}.{name}" if isinstance(extra, dict) else f"{key}[{name}]"
        if isinstance(value, dict | list):
            problems += _extra_problems(value, host, place)  # type: ignore[arg-type]  # lists work, too
        elif isinstance(value, str) and "{{" not in value and (why := placeholder(value)) and value.strip():
            problems.append(make_problem([host], place, why, "set the real value, or remove the entry"))
    return problems
