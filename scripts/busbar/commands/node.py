"""`busbar node`: shows the history of a node, and lists nodes that fail repeatedly."""

from __future__ import annotations

import difflib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.printable import printable
from ansible_collections.busbar.cluster.plugins.plugin_utils.node_records import NAME, read_node_records
from ansible_collections.busbar.cluster.plugins.plugin_utils.nodes.dossier import (
    LIMIT,
    WINDOW_DAYS,
    dossier,
    node_lines,
    read_records,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.report_files import folders, read_report

from busbar.commands.node_text import dossier_text, list_text
from busbar.errors import UsageError
from busbar.output import print_json
from busbar.run.playbook import inventory_hosts
from busbar.run.site import Site, add_run_options

if TYPE_CHECKING:
    import argparse

    from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.report_types import ReadReport

    from busbar.run.events import Run

DONE, UNKNOWN = 0, 3
LEMONS = 1
GROUP = "slurm_compute"
# Two years of weekly validations.
MOST_REPORTS = 200
DAYS, MOST_DAYS = 90, 3660
SHOW = """\
Prints all information about a node: its machine with serial numbers, versions, validations, findings and actions of
the health check, drains with reason and user, failed jobs, and its lemon score. The node and the
controller are queried once each, and nothing is changed. Unavailable sources are named, and the rest is shown. Exit
codes: 0 shown, 2 bad usage, 3 the node or the controller did not answer.
"""
LIST = """\
Prints each compute node with its state, its last validation and its lemon score. The controller is queried once, and
nodes are not contacted. The score is the sum of signals of the last 28 days; see docs/health.md. With --lemons only
nodes whose score reaches the limit are printed, with reasons. Exit codes: 0 done, 1 lemons found (--lemons), 2
bad usage, 3 the controller did not answer.
"""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its actions."""
    parser = subparsers.add_parser("node", help="show the history of a node, and find nodes that fail repeatedly")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    show = actions.add_parser("show", help="show all information about a node", description=SHOW)
    show.add_argument("node", metavar="NAME", help="compute node of the inventory")
    show.add_argument("--days", type=int, default=DAYS, metavar="N", help=f"period of Slurm's accounting ({DAYS})")
    show.set_defaults(run=_show)
    listed = actions.add_parser(
        "list", help="list all nodes with state, last validation and lemon score", description=LIST
    )
    listed.add_argument("--lemons", action="store_true", help="only nodes whose score reaches the limit, with reasons")
    listed.set_defaults(run=_list)
    for action in (show, listed):
        action.add_argument(
            "--lemon-limit", type=int, default=LIMIT, metavar="N", help=f"minimum score of a lemon ({LIMIT})"
        )
        action.add_argument("--format", choices=("text", "json"), default="text")
        action.add_argument("--reports", type=Path, metavar="DIR", help="folder with the reports")
        add_run_options(action)


def _show(args: argparse.Namespace) -> int:
    """Print the dossier and return the exit code."""
    if not 0 < args.days <= MOST_DAYS:
        message = f"--days {args.days}: use a number of days from 1 to {MOST_DAYS}"
        raise UsageError(message)
    site = _Nodes(args)
    if args.node not in site.nodes:
        near = difflib.get_close_matches(args.node, site.nodes, 1)
        message = f"{args.node}: not a compute node of the inventory {', '.join(site.inventory)} (group {GROUP})"
        raise UsageError(message + (f"; did you mean {near[0]}?" if near else ""))
    found = site.ask("-e", f"node_history_nodes={args.node}", "-e", f"node_history_days={args.days}")
    machine = (found.get("busbar_node_machine") or {}).get(args.node)
    if machine is None:
        site.not_known[args.node] = site.why(args.node)
    data = dossier(
        args.node,
        slurm=site.slurm(found),
        machine=machine,
        reports=site.reports(),
        records=site.records(),
        not_known=site.not_known,
        now=int(time.time()),
        limit=args.lemon_limit,
    )
    _print(args, data, dossier_text)
    return UNKNOWN if machine is None or not found.get("busbar_node_slurm") else DONE


def _list(args: argparse.Namespace) -> int:
    """Print the nodes and return the exit code."""
    site = _Nodes(args)
    found = site.ask("-e", f"node_history_days={WINDOW_DAYS}")
    slurm = site.slurm(found)
    site.not_known |= {f"Slurm: {key}": why for key, why in (slurm.get("problems") or {}).items()}
    nodes = node_lines(
        site.nodes,
        slurm=slurm,
        reports=site.reports(),
        records=site.records(),
        now=int(time.time()),
        limit=args.lemon_limit,
    )
    if args.lemons:
        nodes = sorted((each for each in nodes if each["score"]["lemon"]), key=lambda each: -each["score"]["points"])
    data = {"nodes": nodes, "limit": args.lemon_limit, "lemons": args.lemons, "not_known": site.not_known}
    _print(args, data, list_text)
    if not found.get("busbar_node_slurm"):
        return UNKNOWN
    return LEMONS if args.lemons and nodes else DONE


def _print(args: argparse.Namespace, data: dict[str, Any], text: Any) -> None:  # noqa: ANN401 - a function
    if args.format == "json":
        print_json(data)
        return
    for line in text(data):
        print(printable(line))


class _Nodes:
    """The compute nodes of an inventory, their sources of information, and the sources that are unavailable."""

    def __init__(self, args: argparse.Namespace) -> None:
        """Read the compute nodes of the inventory.

        Raises:
            UsageError: the inventory does not exist, or has no compute nodes.
        """
        self._site = Site(args)
        self.inventory = self._site.inventory
        self.place = args.reports or self._site.folder / "reports"
        if args.reports and not args.reports.is_dir():
            message = f"--reports {args.reports}: folder not found"
            raise UsageError(message)
        self._playbook = self._site.playbook("describe")
        self.nodes = inventory_hosts(self._playbook, GROUP)
        if not self.nodes:
            message = f"the inventory {', '.join(self.inventory)} has no compute nodes (group {GROUP})"
            raise UsageError(message)
        self.not_known: dict[str, str] = {}
        self._run: Run | None = None

    def ask(self, *options: str) -> dict[str, Any]:
        """Query the hosts, and return the statistics that the playbook sets (set_stats)."""
        self._run = self._site.ask(self._playbook, "--tags", "node_history", *options, log="node")
        return dict(self._run.custom)

    def why(self, host: str) -> str:
        """Return the reason why a host did not answer."""
        failures = self._run.failures if self._run else []
        messages = [failure.message for failure in failures if host in failure.hosts]
        return " ".join(messages[0].split())[:300] if messages else "not queried"

    def slurm(self, found: dict[str, Any]) -> dict[str, Any]:
        """Return the answer of the controller; record a missing answer."""
        answer = found.get("busbar_node_slurm")
        if isinstance(answer, dict):
            return answer
        failures = self._run.failures if self._run else []
        others = [failure for failure in failures if not set(failure.hosts) <= set(self.nodes)]
        words = " ".join(others[0].message.split())[:300] if others else "no answer"
        self.not_known["controller"] = words
        return {}

    def reports(self) -> list[tuple[str, ReadReport]]:
        """Return the last reports, oldest first; record unreadable reports."""
        found = []
        try:
            places = folders(self.place)[-MOST_REPORTS:] if self.place.is_dir() else []
        except OSError as exc:
            self.not_known["reports"] = f"{self.place}: {exc.strerror or exc}"
            return []
        for path in places:
            try:
                found.append((path.name, read_report(path)))
            except (OSError, ValueError) as exc:
                self.not_known[f"report {path.name}"] = str(exc)[:300]
        return found

    def records(self) -> list[dict[str, Any]]:
        """Return the site's records of nodes; report damaged lines."""
        try:
            found, damaged = read_records(read_node_records(self.place))
        except OSError as exc:
            self.not_known["records of the site"] = str(exc)
            return []
        if damaged:
            self.not_known["records of the site"] = f"{damaged} damaged lines in {self.place / NAME}"
        return found
