"""`busbar vm`: manages a file server and its client as virtual machines with separate kernels."""

from __future__ import annotations

import argparse
import subprocess
import sys
from typing import TYPE_CHECKING

from busbar.sandbox.option import add_name, own_words
from busbar.sandbox.state import default_name, locked
from busbar.vm import group, qemu
from busbar.vm.state import MACHINES, load

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["register"]

NAME = "name of the pair (default: one per checkout)"
EPILOG = """\
Machines: nfs1 (a file server) and client1 (with two empty disks and one that carries data). Provision them like any
other site: busbar provision storage -i .sandbox/NAME/inventory. Consoles are logged to .sandbox/NAME/MACHINE.console.
"""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its actions."""
    parser = subparsers.add_parser("vm", help="make and use two small virtual machines", epilog=EPILOG)
    parser.set_defaults(name=f"{default_name()}-vm")
    add_name(parser, NAME)
    actions = parser.add_subparsers(required=True, metavar="ACTION")

    def action(name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        sub = actions.add_parser(name, help=text, description=text)
        add_name(sub, NAME)
        sub.set_defaults(run=run)
        return sub

    action("up", run_up, "make the machines, or start them")
    action("down", run_down, "remove the machines and their disks")
    action("status", run_status, "show the machines")
    cable = action("cable", run_cable, "pull or plug the cable between a machine and the others")
    cable.add_argument("state", choices=["pull", "plug"])
    cable.add_argument("machine", metavar="MACHINE")
    login = action("ssh", run_ssh, "log in to a machine as the admin")
    login.add_argument("machine", metavar="MACHINE")
    login.add_argument("command", nargs=argparse.REMAINDER, metavar="[-- CMD …]")


def run_up(args: argparse.Namespace) -> int:
    """Create the machines."""
    with locked(args.name):
        group.up(args.name, say)
    return 0


def run_down(args: argparse.Namespace) -> int:
    """Remove the machines."""
    with locked(args.name):
        removed = group.down(args.name)
    say(f"machines {args.name}: {'removed' if removed else 'nothing to remove'}")
    return 0


def run_status(args: argparse.Namespace) -> int:
    """Show the machines and return 0 if all run, otherwise 1."""
    machines = load(args.name)
    pids = [qemu.pid_of(machines, machine) for machine in MACHINES]
    for machine, pid in zip(MACHINES, pids):
        state = f"process {pid}, port {machines.ports[machine.name]}" if pid else "stopped"
        print(f"  {machine.name:<8} {machine.address:<12} {state}")
    return 0 if all(pids) else 1


def run_cable(args: argparse.Namespace) -> int:
    """Disconnect or connect a network cable."""
    machines = load(args.name)
    qemu.set_cable(machines, machines.machine(args.machine), plugged=args.state == "plug")
    return 0


def run_ssh(args: argparse.Namespace) -> int:
    """Log in over SSH and return ssh's exit code."""
    words = own_words(args, args.command)
    machines = load(args.name)
    terminal = ["-t"] if sys.stdin.isatty() and sys.stdout.isatty() else []
    return subprocess.call(
        ["ssh", "-F", str(machines.ssh_config), *terminal, machines.machine(args.machine).name, *words]
    )


def say(line: str) -> None:
    """Print the progress."""
    print(line, flush=True)
