"""Alertmanager's configuration, of receivers and routes that are sound.

Source of the schema: Alertmanager's documentation, "Configuration", sections route, receiver and inhibit_rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .alert_targets import integration
from .prometheus_plan import duration_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["DEFAULT", "NONE", "SEVERITIES", "WAITS", "WATCHDOG", "alertmanager_config", "names"]

SEVERITIES = ("critical", "warning", "info")
NONE, WATCHDOG, DEFAULT = "none", "busbar_watchdog", "default"
WAITS = ("group_wait", "group_interval", "repeat_interval")
_WATCHDOG_INTERVAL = "1m"
# A group is looked at once per interval: a repetition that is due a moment after such a look would wait for the next.
_REPEAT_SHARE = 0.8


def alertmanager_config(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return alertmanager.yml as data, of settings that are sound."""
    email = settings["email"]
    receivers: list[dict[str, Any]] = [{"name": NONE}]
    for name, targets in settings["receivers"].items():
        receiver: dict[str, Any] = {"name": name}
        for target in _targets(targets):
            kind, entry = integration(target, email)
            receiver.setdefault(kind, []).append(entry)
        receivers.append(receiver)
    watchdog = {"matchers": ['alertname="Watchdog"'], "receiver": NONE}
    if settings["watchdog"]:
        _, entry = integration({"webhook": settings["watchdog"]}, {})
        receivers.append({"name": WATCHDOG, "webhook_configs": [entry | {"send_resolved": False}]})
        every = str(settings["watchdog"].get("interval", _WATCHDOG_INTERVAL))
        again = f"{max(1, int(duration_seconds(every) * _REPEAT_SHARE))}s"
        watchdog |= {"receiver": WATCHDOG, "group_by": ["alertname"], "group_wait": "0s"}
        watchdog |= {"group_interval": every, "repeat_interval": again}
    routes: list[dict[str, Any]] = [watchdog]
    for own in settings["own_routes"]:
        more = {key: value for key, value in own.items() if key not in {"receivers", "continue"}}
        routes += _to_each(names(own["receivers"]), more, last=bool(own.get("continue")))
    for severity in SEVERITIES:
        mute = settings["mute"].get(severity)
        more = {"matchers": [f'severity="{severity}"'], **({"mute_time_intervals": names(mute)} if mute else {})}
        routes += _to_each(_route(settings, severity), more)
    routes += _to_each(_route(settings, DEFAULT), {})
    config: dict[str, Any] = {
        "templates": list(settings["templates"]),
        "route": {
            "receiver": NONE,
            "group_by": list(settings["group_by"]),
            **{key: str(settings[key]) for key in WAITS},
            "routes": routes,
        },
        "receivers": receivers,
        "inhibit_rules": [dict(rule) for rule in settings["inhibit_rules"]],
    }
    if settings["time_intervals"]:
        config["time_intervals"] = [dict(each) for each in settings["time_intervals"]]
    return _merged(config, settings["extra"])


def _to_each(names: Sequence[str], more: Mapping[str, Any], *, last: bool = False) -> list[dict[str, Any]]:
    """Return one route per receiver; an alert goes on from each to the next, from the last one only if asked."""
    routes = [{**more, "receiver": name, "continue": True} for name in names]
    if routes and not last:
        del routes[-1]["continue"]
    return routes


def _merged(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """Return both: mappings are merged, lists appended, and of other values theirs is taken."""
    merged = dict(ours)
    for key, value in theirs.items():
        present = merged.get(key)
        if isinstance(present, dict) and isinstance(value, dict):
            merged[key] = _merged(present, value)
        elif isinstance(present, list) and isinstance(value, list):
            # Their routes come before ours, which take everything.
            merged[key] = [*value, *present] if key == "routes" else [*present, *value]
        else:
            merged[key] = value
    return merged


def names(value: object) -> list[str]:
    """Return one name or several as a list."""
    return [str(each) for each in value] if isinstance(value, list | tuple) else [str(value)]


def _targets(value: object) -> list[Any]:
    """Return the targets of a receiver; none of one that is there to reach nobody."""
    return list(value) if isinstance(value, list) else []


def _route(settings: Mapping[str, Any], severity: str) -> list[str]:
    """Return the receivers of a severity: nobody where it is not routed, those of warnings for what is unknown."""
    routes = settings.get("routes") or {}
    if severity == DEFAULT and DEFAULT not in routes:
        return _route(settings, "warning")
    return names(routes.get(severity) or NONE)
