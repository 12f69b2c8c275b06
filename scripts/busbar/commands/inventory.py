"""`busbar inventory`: derives the hardware profile of a machine and the topology of a fabric."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import yaml
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.hostlist import fold_hosts, unfold_hosts
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.printable import printable
from ansible_collections.busbar.cluster.plugins.plugin_utils.slurm.fabric_topology import fabric_topology

from busbar.errors import UsageError
from busbar.run.playbook import absent_hosts
from busbar.run.site import Site, add_run_options, explain
from busbar.text_file import read_text

if TYPE_CHECKING:
    import argparse

    from busbar.run.events import Run

DESCRIPTION = """\
Reads processors, memory, GPUs and NICs of machines and prints matching hardware profiles, ready for
hardware_profiles_extra; comments name the closest known profile and the differences. For a machine without an inventory
use: -i ADDRESS, ADDRESS. Nothing is changed.
"""
TOPOLOGY = """\
Prints slurm_topology for the inventory: nodes on the same leaf switches or in the same NVLink domain are grouped.
Reads the output of `ibnetdiscover` from any host of an InfiniBand fabric, or, with --from, queries the hosts for
their LLDP neighbours or the NVLink domains of their GPUs. Nothing is changed. Review the result before use.
"""
_FABRIC = "ibnetdiscover"


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its actions."""
    parser = subparsers.add_parser("inventory", help="describe machines for the inventory")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    describe = actions.add_parser("describe", help="print the hardware profile of machines", description=DESCRIPTION)
    describe.add_argument("hosts", nargs="+", metavar="HOST", help="hosts of the inventory, such as gpu1 or gpu[1-4]")
    add_run_options(describe)
    describe.set_defaults(run=_describe)
    topology = actions.add_parser("topology", help="print the Slurm topology of a fabric", description=TOPOLOGY)
    what = "file with the output of ibnetdiscover, - for standard input; with --from: hosts such as gpu[1-4]"
    topology.add_argument("hosts", nargs="+", metavar="FILE|HOST", help=what)
    sources = (_FABRIC, "lldp", "nvlink")
    topology.add_argument("--from", dest="source", choices=sources, default=_FABRIC, help=f"default: {_FABRIC}")
    topology.add_argument(
        "--nodes", default="", metavar="NODES", help="the compute nodes, such as gpu[1-4]; default: all hosts"
    )
    network = "with --from lldp: network interfaces of the fabric, such as 'eth_r*'; default: all"
    topology.add_argument("--interfaces", default="*", metavar="PATTERN", help=network)
    add_run_options(topology)
    topology.set_defaults(run=_topology)


def _topology(args: argparse.Namespace) -> int:
    """Print the topology and return 0, or 1 if a host did not answer."""
    if args.source != _FABRIC:
        return _topology_of_hosts(args)
    if len(args.hosts) > 1:
        message = f"expected one FILE (found {len(args.hosts)}): to query hosts, use --from lldp or --from nvlink"
        raise UsageError(message)
    (file_name,) = args.hosts
    where = "standard input" if file_name == "-" else file_name
    text = read_text(file_name)
    try:
        found = fabric_topology(text, unfold_hosts(args.nodes) if args.nodes else ())
    except ValueError as exc:
        message = f"{where}: {exc}"
        raise UsageError(message) from exc
    for note in found["notes"]:
        print(printable(f"# {note}"))
    print(yaml.safe_dump({"slurm_topology": {"switches": found["switches"]}}, sort_keys=False), end="")
    return 0


def _topology_of_hosts(args: argparse.Namespace) -> int:
    """Print the topology that hosts report and return 0, or 1 without a topology."""
    if args.nodes:
        message = f"--nodes applies only to {_FABRIC}: with --from {args.source}, list the hosts instead"
        raise UsageError(message)
    variables = {
        "topology_source": args.source,
        "topology_interfaces": args.interfaces,
        "topology_hosts": [host for folded in args.hosts for host in _unfolded(folded)],
    }
    words = ("--tags", "topology", "--skip-tags", "topology_show", "-e", json.dumps(variables))
    run = ask_hosts(args, "describe", *words)
    found = run.custom.get("busbar_topology") or {}
    if found.get("problem"):
        raise UsageError(printable(found["problem"]))
    return _print_answer(run, found.get("text") or "")


def _unfolded(folded: str) -> list[str]:
    try:
        return list(unfold_hosts(folded))
    except ValueError as exc:
        raise UsageError(str(exc)) from exc


def ask_hosts(args: argparse.Namespace, name: str, *options: str, group: str = "all") -> Run:
    """Run a read-only playbook on the given hosts.

    Args:
        args: with `hosts`, which may contain ranges, and the options of `add_run_options`.
        name: name of the playbook.
        options: further Ansible options.
        group: group of the inventory that contains the hosts.

    Raises:
        UsageError: a name is not a host of the group, or the playbook ran no task.
    """
    hosts = [host for folded in args.hosts for host in _unfolded(folded)]
    site = Site(args)
    playbook = site.playbook(name)
    absent, known = absent_hosts(playbook, hosts, group)
    if absent:
        message = (
            f"{fold_hosts(absent)}: not in the group {group} of the inventory {', '.join(site.inventory)} "
            f"({fold_hosts(known) or 'which has no hosts'}): correct the name, or add the host"
        )
        raise UsageError(message)
    run = site.ask(playbook, "--limit", ",".join(hosts), *options, log=name)
    if not run.tasks:
        why = " ".join(" ".join(run.errors or run.prelude).removeprefix("[ERROR]: ").split())
        message = f"{name} did not start: {why or 'no task ran'}; log: {run.log}"
        raise UsageError(message)
    return run


def _describe(args: argparse.Namespace) -> int:
    """Print the profiles and return 0, or 1 if a host did not answer."""
    run = ask_hosts(args, "describe", "--skip-tags", "describe_show")
    return _print_answer(run, run.custom.get("busbar_description") or "")


def _print_answer(run: Run, answer: str) -> int:
    """Print the answers of the hosts and return 0, or 1 if a host did not answer."""
    text = printable(answer).strip("\n")
    if text:
        print(text)
    if run.returned:
        explain(run)
    return 0 if run.returned == 0 and text else 1
