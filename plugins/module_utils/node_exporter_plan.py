"""How a node's exporter is started, what it says of the node, and what is wrong with its options."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from .node_facts import exposition, node_facts
from .problems import make_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .problems import Problem

__all__ = ["archive_problems", "node_exporter_plan"]

WEB_CONFIG = "/etc/prometheus/node_exporter_web.yml"
_SHA256 = re.compile(r"[0-9a-f]{64}")


def archive_problems(role: str, settings: Mapping[str, Any], host: str) -> list[Problem]:
    """Return what keeps a program from being installed: `source`, `archives`, `architecture`, `packaged`."""
    if settings["source"] == "distribution" and not settings["packaged"]:
        remedy = f"set {role}_source: url and {role}_archives to the release of its makers"
        return [make_problem([host], f"{role}_source", "this distribution has no package of it", remedy)]
    if settings["source"] != "url":
        return []
    entry = (settings["archives"] or {}).get(settings["architecture"]) or {}
    if not str(entry.get("url") or "").startswith(("http://", "https://")):
        remedy = "write url and sha256 of the release for it"
        return [make_problem([host], f"{role}_archives", f"has no url for {settings['architecture']}", remedy)]
    if not _SHA256.fullmatch(str(entry.get("sha256") or "")):
        remedy = "set it to what `sha256sum` prints for the archive, once you trust that file"
        return [make_problem([host], f"{role}_archives", f"sha256 of {entry['url']} is missing", remedy)]
    return []


def node_exporter_plan(settings: Mapping[str, Any], host: str) -> dict[str, Any]:
    """Return `problems`, `arguments` (flags) and `facts` (the text of busbar_node.prom).

    Args:
        settings: the options of the role `node_exporter` without its name, `listen`, `architecture`, `packaged`,
            `hardware_name` and `profile`.
        host: whose exporter it is.
    """
    problems = archive_problems("node_exporter", settings, host)
    both = sorted(set(settings["collectors"]) & set(settings["collectors_off"]))
    if both:
        remedy = "take it out of one of the two"
        problem = f"{', '.join(both)} in node_exporter_collectors, too"
        problems.append(make_problem([host], "node_exporter_collectors_off", problem, remedy))
    facts = ""
    try:
        facts = exposition([*node_facts(settings["hardware_name"], settings["profile"]), *settings["facts"]])
    except (AttributeError, KeyError, TypeError, ValueError) as exc:
        remedy = "write entries of name, value and, where need be, labels and help"
        problems.append(make_problem([host], "node_exporter_facts", str(exc), remedy))
    return {"problems": problems, "arguments": _arguments(settings), "facts": facts}


def _arguments(settings: Mapping[str, Any]) -> list[str]:
    units = "|".join(settings["systemd_units"])
    return [
        f"--web.listen-address={settings['listen']}",
        *([f"--web.config.file={WEB_CONFIG}"] if settings["web_config"] else []),
        f"--collector.textfile.directory={settings['textfile_dir']}",
        f"--collector.filesystem.mount-timeout={settings['mount_timeout_s']}s",
        *(f"--collector.{name}" for name in settings["collectors"]),
        *(f"--no-collector.{name}" for name in settings["collectors_off"]),
        *([f"--collector.systemd.unit-include=({units})[.]service"] if "systemd" in settings["collectors"] else []),
        *settings["arguments"],
    ]
