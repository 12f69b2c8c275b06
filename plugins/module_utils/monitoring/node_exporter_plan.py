"""How a node's exporter is started, what it says of the node, and what is wrong with its options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..common.problems import make_problem
from ..common.program_source import source_problems, start_command
from ..common.socket_address import socket_address
from .node_facts import exposition, node_facts

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["node_exporter_plan"]

WEB_CONFIG = "/etc/prometheus/node_exporter_web.yml"
# Debian's own leaves out /mnt and /media as well, where clusters mount their shared trees.
UNSEEN_MOUNTS = "^/(dev|proc|run|sys|var/lib/docker/.+|var/lib/containers/storage/.+)($|/)"


def node_exporter_plan(settings: Mapping[str, Any], host: str) -> dict[str, Any]:
    """Return `problems`, `listen`, `command` and `facts` (the text of busbar_node.prom).

    Args:
        settings: the options of the role `node_exporter` without its name, `program`, `architecture`, `packaged`,
            `hardware_name`, `profile` and `web_flag`, by which the program takes its web configuration.
        host: whose exporter it is.
    """
    problems = source_problems("node_exporter", settings, host)
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
        problems.append(make_problem([host], "node_exporter_extra_metrics", str(exc), remedy))
    listen = socket_address(str(settings["address"]), settings["port"])
    command, wrong = start_command("node_exporter", [settings["program"], *_arguments(settings, listen)], host)
    return {"problems": problems + wrong, "listen": listen, "command": command, "facts": facts}


def _arguments(settings: Mapping[str, Any], listen: str) -> list[str]:
    return [
        f"--web.listen-address={listen}",
        *([f"{settings['web_flag']}={WEB_CONFIG}"] if settings["web_config"] else []),
        f"--collector.textfile.directory={settings['textfile_dir']}",
        f"--collector.filesystem.mount-timeout={settings['mount_timeout_s']}s",
        f"--collector.filesystem.mount-points-exclude={UNSEEN_MOUNTS}",
        *(f"--collector.{name}" for name in settings["collectors"]),
        *(f"--no-collector.{name}" for name in settings["collectors_off"]),
        *(_systemd_arguments(settings) if "systemd" in settings["collectors"] else []),
        *settings["arguments"],
    ]


def _systemd_arguments(settings: Mapping[str, Any]) -> list[str]:
    units = "|".join(settings["systemd_units"])
    # node_systemd_service_restart_total; the program refuses a switch that is given twice.
    restarts = "--collector.systemd.enable-restarts-metrics"
    wanted = [f"--collector.systemd.unit-include=({units})[.]service", restarts]
    return [each for each in wanted if each not in settings["arguments"]]
