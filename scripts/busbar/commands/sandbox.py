"""`busbar sandbox`: manages a small real cluster on this machine."""

from __future__ import annotations

import argparse
import difflib
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from busbar.errors import UsageError
from busbar.sandbox import cluster, faults, host
from busbar.sandbox.image import ADMIN
from busbar.sandbox.option import add_name, command_words
from busbar.sandbox.state import (
    DISTRIBUTIONS,
    IMAGES,
    MAX_COMPUTE,
    SHARED,
    Sandbox,
    default_name,
    load,
    locked,
    sandbox_path,
)

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_GPUS = 16
EPILOG = """\
Nodes: ctl (controller, database), login, gpu1 gpu2 …; with --controllers 2 also the backup ctl2. The GPUs are
simulated: device nodes without hardware. /shared of every node is one folder of this machine, because
containers cannot serve NFS. Provision them like any other site: busbar provision --sandbox (or --name NAME), or
ansible-playbook -i .sandbox/NAME/inventory playbooks/site.yml. Put your variables into
.sandbox/NAME/inventory/group_vars/all/zzz_site.yml, which overrides those of the sandbox; only sandbox down removes it.
"""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its actions."""
    parser = subparsers.add_parser(
        "sandbox", help="create a small cluster of containers and inject faults", epilog=EPILOG
    )
    parser.set_defaults(name=None)
    add_name(parser)
    actions = parser.add_subparsers(required=True, metavar="ACTION")

    def action(name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        sub = actions.add_parser(name, help=text, description=text)
        add_name(sub)
        sub.set_defaults(run=run)
        return sub

    create = action("up", run_up, "create the sandbox, or add nodes to a running one")
    create.add_argument("--compute", type=number(1, MAX_COMPUTE), help="compute nodes (default: 2)")
    create.add_argument("--gpus", type=number(0, MAX_GPUS), help="simulated GPUs per compute node (default: 2)")
    create.add_argument(
        "--controllers", type=number(1, 2), help="2 adds the backup ctl2 for slurmctld and slurmdbd (default: 1)"
    )
    create.add_argument("--databases", help=argparse.SUPPRESS)
    system = create.add_mutually_exclusive_group()
    system.add_argument(
        "--distribution",
        type=distribution,
        # Molecule and scripts/test set the variable. argparse also validates this default with `type`.
        default=os.environ.get("BUSBAR_DISTRIBUTION") or None,
        metavar="NAME",
        help=f"distribution of all nodes: {', '.join(sorted(DISTRIBUTIONS | IMAGES))} "
        "(default: BUSBAR_DISTRIBUTION, or debian13)",
    )
    system.add_argument("--image", metavar="REF", help="OCI image with apt-get or dnf for all nodes")
    create.add_argument("--rebuild", action="store_true", help="rebuild the image")
    remove = action("down", run_down, "remove the sandbox with all its files")
    remove.add_argument("--purge", action="store_true", help="also remove the cached images")
    status = action("status", run_status, "show the nodes and the active faults")
    status.add_argument("--format", choices=["text", "json"], default="text")
    login = action("ssh", run_ssh, "log in to a node over SSH, as the admin or as USER@NODE")
    login.add_argument("node", metavar="[USER@]NODE")
    login.add_argument("command", nargs=argparse.REMAINDER, metavar="[-- CMD …]")
    execute = action("exec", run_exec, "run a command on a node as root, without SSH")
    execute.add_argument("node", metavar="NODE")
    execute.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD …")
    register_faults(action("fault", run_heal, "inject a fault, or revert all active faults"))


def register_faults(parser: argparse.ArgumentParser) -> None:
    """Add the kinds of faults."""
    kinds = parser.add_subparsers(required=True, metavar="FAULT")

    def kind(name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        sub = kinds.add_parser(name, help=text, description=text)
        add_name(sub)
        sub.set_defaults(run=run)
        return sub

    throttle = kind("throttle", run_throttle, "limit a node's link in both directions")
    throttle.add_argument("node")
    throttle.add_argument("rate", help="such as 1gbit or 100mbit")
    stop = kind("stop", run_stop, "stop a service of a node")
    stop.add_argument("node")
    stop.add_argument("service")
    kind("pull", run_pull, "power a node off as if its power cord were pulled").add_argument("node")
    kind("heal", run_heal, "revert all faults")


def number(least: int, most: int) -> Callable[[str], int]:
    """Return an argparse type for integers in a range."""

    def convert(text: str) -> int:
        value = int(text) if text.isdecimal() else least - 1
        if not least <= value <= most:
            msg = f"{text!r} is not a number from {least} to {most}"
            raise argparse.ArgumentTypeError(msg)
        return value

    return convert


def distribution(text: str) -> str:
    """Return a distribution (argparse type); the error for an unknown name suggests the most similar one."""
    known = sorted(DISTRIBUTIONS | IMAGES)
    if text not in known:
        near = difflib.get_close_matches(text, known, 1)
        nearest = f" (nearest: {near[0]})" if near else ""
        msg = f"{text!r} is unknown{nearest}. Use {', '.join(known)}, or --image REF for another system"
        raise argparse.ArgumentTypeError(msg)
    return text


def run_up(args: argparse.Namespace) -> int:
    """Create or extend the sandbox."""
    if args.databases:
        message = "--databases was removed: remove it; for an external database set slurm_database_external"
        raise UsageError(message)
    name = args.name or default_name()
    host.check_host()
    with locked(name):
        known = load(name) if (sandbox_path(name) / "sandbox.json").exists() else None
        sandbox = known or Sandbox(name)
        if known:
            refuse_shrinking(sandbox, args)
        sandbox.compute = args.compute or sandbox.compute
        sandbox.gpus = sandbox.gpus if args.gpus is None else args.gpus
        sandbox.controllers = args.controllers or sandbox.controllers
        sandbox.image = args.image or sandbox.image
        sandbox.distribution = "" if sandbox.image else args.distribution or sandbox.distribution
        cluster.up(sandbox, say, rebuild=args.rebuild)
    say(storage_line(sandbox))
    say(f"inventory: {sandbox.path / 'inventory'}")
    return 0


def storage_line(sandbox: Sandbox) -> str:
    """Describe the shared storage of the nodes."""
    return (
        f"storage: bind, no NFS: {SHARED} of every node is {sandbox.shared} of this machine, "
        "and sandbox down removes it"
    )


def refuse_shrinking(sandbox: Sandbox, args: argparse.Namespace) -> None:
    """Refuse options that would remove nodes from, or change, a running sandbox.

    Raises:
        UsageError: names the differences and a remedy.
    """
    requested = {
        "compute": args.compute,
        "gpus": args.gpus,
        "controllers": args.controllers,
        "image": args.image,
        "distribution": None if args.image else args.distribution,
    }
    for option, value in requested.items():
        present = getattr(sandbox, option)
        if value is None or value == present or (option == "compute" and value > present):
            continue
        msg = (
            f"sandbox {sandbox.name} has --{option} {present or 'unset'} (requested {value}); only --compute can be "
            f"increased. To change other options, remove the sandbox first: busbar sandbox down --name {sandbox.name}"
        )
        raise UsageError(msg)


def run_down(args: argparse.Namespace) -> int:
    """Remove the sandbox."""
    name = args.name or default_name()
    host.check_host()
    with locked(name):
        removed = cluster.down(name, purge=args.purge)
    say(f"sandbox {name}: {'removed' if removed else 'nothing to remove'}")
    return 0


def run_status(args: argparse.Namespace) -> int:
    """Show the nodes and return 0 if all run without an active fault, otherwise 1."""
    sandbox = load(args.name)
    nodes = cluster.node_states(sandbox)
    if args.format == "json":
        report = {"name": sandbox.name, "distribution": sandbox.distribution, "gpus": sandbox.gpus}
        storage = {"backend": "bind", "mount": SHARED, "source": str(sandbox.shared)}
        report |= {"image": sandbox.image, "storage": storage}
        print(json.dumps(report | {"nodes": nodes, "faults": sandbox.faults}, indent=2))
    else:
        system = sandbox.image or sandbox.distribution
        print(f"sandbox {sandbox.name} ({system}, {sandbox.gpus} simulated GPUs per compute node)")
        for node in nodes:
            print(f"  {node['node']:<8} {node['address']:<15} {node['state']}")
        print(f"  {storage_line(sandbox)}")
        for fault in sandbox.faults:
            print(f"  fault: {fault['kind']} {fault['node']} {fault['detail']}".rstrip())
    return 0 if all(node["state"] == "running" for node in nodes) and not sandbox.faults else 1


def run_ssh(args: argparse.Namespace) -> int:
    """Log in over SSH and return ssh's exit code."""
    words = command_words(args, args.command)
    sandbox = load(args.name)
    user, _, node = args.node.rpartition("@")
    sandbox.container(node)
    keys = sandbox.path / "ssh"
    trusted = sandbox.path / "secrets" / "known_hosts"
    command = ["ssh", "-i", str(keys / "id_ed25519"), "-o", "IdentitiesOnly=yes", "-o", "StrictHostKeyChecking=yes"]
    command += ["-o", f"UserKnownHostsFile={keys / 'known_hosts'} {trusted}", "-l", user or ADMIN]
    return subprocess.call([*command, sandbox.address(node), *words])


def run_exec(args: argparse.Namespace) -> int:
    """Run a command as root and return its exit code."""
    command = command_words(args, args.command) or ["/bin/bash", "-l"]
    container = load(args.name).container(args.node)
    terminal = ["--tty"] if sys.stdin.isatty() and sys.stdout.isatty() else []
    return subprocess.call(["podman", "exec", "--interactive", *terminal, container, *command], env=os.environ)


def run_throttle(args: argparse.Namespace) -> int:
    """Throttle a node's link."""
    sandbox = load(args.name)
    faults.throttle(sandbox, args.node, args.rate)
    say(f"{args.node}: link limited to {args.rate} in both directions")
    return 0


def run_stop(args: argparse.Namespace) -> int:
    """Stop a service."""
    faults.stop(load(args.name), args.node, args.service)
    say(f"{args.node}: {args.service} stopped")
    return 0


def run_pull(args: argparse.Namespace) -> int:
    """Stop a node as if its power was cut."""
    faults.pull(load(args.name), args.node)
    say(f"{args.node}: pulled")
    return 0


def run_heal(args: argparse.Namespace) -> int:
    """Undo every fault."""
    sandbox = load(args.name)
    if not sandbox.faults:
        say(f"sandbox {sandbox.name}: no active fault")
    faults.heal(sandbox, say)
    return 0


def say(line: str) -> None:
    """Print the progress."""
    print(line, flush=True)
