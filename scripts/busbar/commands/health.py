"""`busbar health`: runs the health check of nodes and prints the findings."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.module_utils.health.finding import MONITOR
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.printable import printable

from busbar.commands.inventory import ask_hosts
from busbar.run.site import add_run_options, explain

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

HEALTHY, SICK, UNKNOWN = 0, 1, 3
DESCRIPTION = """\
Runs the health check of Slurm on the nodes and prints its findings: host, severity
(ISOLATE: replace it; RESET: reset, reboot or repair it; MONITOR: only reported), check, component and remedy.
Nothing is changed and no node is drained. Exit codes: 0 at most MONITOR findings, 1 other findings, 2 bad usage,
3 a node did not answer.
"""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "health", help="check nodes and list problems with remedies", description=DESCRIPTION
    )
    parser.add_argument("hosts", nargs="+", metavar="NODE", help="hosts of the inventory, such as gpu1 or gpu[1-4]")
    add_run_options(parser)
    parser.set_defaults(run=_health)


def _health(args: argparse.Namespace) -> int:
    """Print the findings and return the exit code."""
    run = ask_hosts(args, "health", group="slurm_compute")
    code, lines = report(run.custom.get("busbar_health") or {})
    for line in lines:
        print(printable(line))
    if run.returned or not lines:
        explain(run)
        return UNKNOWN
    return code


def report(answers: Mapping[str, str]) -> tuple[int, list[str]]:
    """Return the exit code and the output lines.

    Args:
        answers: the output of `node_health --look --json` by host.
    """
    code, lines = HEALTHY, []
    for host, text in sorted(answers.items()):
        try:
            found = json.loads(text)
            own = [*_findings(host, found["findings"])]
            bad = any(each["severity"] != MONITOR for each in found["findings"])
            unknown = [f"{host}: unknown: {name}: {why}" for name, why in found["unknown"].items()]
        except (AttributeError, KeyError, TypeError, ValueError):
            message = f"{host}: the output of the health check is not valid JSON: {text[:200]}"
            code, own, bad, unknown = UNKNOWN, [message], False, []
        if bad and code == HEALTHY:
            code = SICK
        lines += [*(own or [f"{host}: healthy"]), *unknown]
    return code, lines


def _findings(host: str, findings: list[dict[str, Any]]) -> Iterator[str]:
    for each in findings:
        value = f" [{each['value']}]" if each["value"] and each["value"] not in each["problem"] else ""
        yield f"{host}: {each['severity']} {each['check']}: {each['problem']}{value}"
        if each["remedy"]:
            yield f"    {each['remedy']}"
