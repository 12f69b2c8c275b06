"""Chooses the inventory of a command and runs playbooks on it."""

from __future__ import annotations

import dataclasses
import getpass
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.busbar.cluster.plugins.plugin_utils.inventory_yaml import yaml_problems
from ansible_collections.busbar.cluster.plugins.plugin_utils.run_lock import LockedError, refuse_if_locked
from ansible_collections.busbar.cluster.plugins.plugin_utils.site_folder import is_read_whole, site_folder

from busbar.errors import UsageError, require_ansible
from busbar.paths import collection, default_inventory
from busbar.run.ansible_options import add_ansible_options
from busbar.run.display import Display
from busbar.run.events import Run, summary
from busbar.run.playbook import PROMPTS, Playbook, hosts_counter, open_log, run_playbook
from busbar.sandbox.option import add_sandbox, chosen
from busbar.sandbox.state import inventory_of

if TYPE_CHECKING:
    import argparse

_FILES = {
    "ask_pass": "--connection-password-file",
    "ask_become_pass": "--become-password-file",
    "ask_vault_pass": "--vault-password-file",
}
_QUESTIONS = {"ask_pass": "SSH password: ", "ask_become_pass": "sudo password: ", "ask_vault_pass": "Vault password: "}


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Add the common options of commands that run playbooks."""
    cluster = parser.add_argument_group("cluster")
    cluster.add_argument(
        "-i",
        "--inventory",
        action="append",
        metavar="INVENTORY",
        help="file, directory or list of hosts (default: inventory/)",
    )
    add_sandbox(cluster)
    prompts = parser.add_argument_group("passwords, for which busbar prompts once")
    prompts.add_argument("-k", "--ask-pass", action="store_true", help="ask for the SSH password")
    prompts.add_argument("-K", "--ask-become-pass", action="store_true", help="ask for the sudo password")
    prompts.add_argument(
        "-J", "--ask-vault-pass", "--ask-vault-password", action="store_true", help="ask for the vault password"
    )
    add_ansible_options(parser)


class Site:
    """The inventory of a command.

    Attributes:
        inventory: its sources, in the order of `-i`.
        chosen_by: origin of the sources: a sandbox, the command line or the default.
        folder: folder for logs, reports and secrets.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        """Choose the inventory.

        Args:
            args: with the options of `add_run_options`.

        Raises:
            UsageError: Ansible is not installed, the inventory does not exist, or the options contradict each other.
        """
        require_ansible()
        self.args = args
        self.inventory, self.chosen_by = _choose_inventory(args)
        self.folder = Path.cwd() if "," in self.inventory[0] else site_folder(self.inventory[0])

    def playbook(self, name: str | Path) -> Playbook:
        """Return a playbook, given by its name in the collection or its path, with the user's options.

        Raises:
            UsageError: the inventory cannot be read.
        """
        path = name if isinstance(name, Path) else collection() / "playbooks" / f"{name}.yml"
        refuse_unreadable(self.inventory, path)
        prompts = [f"--{key.replace('_', '-')}" for key in PROMPTS if getattr(self.args, key)]
        return Playbook(path, self.inventory, [*self.args.options, *prompts])

    def ask(self, playbook: Playbook, *options: str, log: str = "") -> Run:
        """Run a playbook and show its progress on standard error, so that standard output contains only results.

        Args:
            playbook: the playbook.
            options: further options.
            log: name of its log; empty for no log.

        Raises:
            KeyboardInterrupt: the user interrupted the run.
            UsageError: a password prompt is needed without a terminal.
        """
        run = self.run(playbook, *options, log=log, display=Display(sys.stderr))
        if run.interrupted:
            raise KeyboardInterrupt
        return run

    def run(self, playbook: Playbook, *options: str, log: str, display: Display, title: str = "") -> Run:
        """Run a playbook; the first line shows the title and the path of the log."""
        playbook = dataclasses.replace(
            playbook, options=[*options, *playbook.options], passwords=_ask_passwords(self.args)
        )
        place = open_log(self.folder / "logs", log) if log else Path(os.devnull)
        if title:
            display.line(f"{title}, log {place}")
        with display:
            run = Run(display, hosts_counter(playbook), log=place)
            run.returned, run.interrupted = run_playbook(playbook, run, place)
        return run


def explain(run: Run) -> None:
    """Print on standard error why a run failed."""
    print("\n".join([*summary(run), f"log: {run.log}"]), file=sys.stderr)


def refuse_prompts(args: argparse.Namespace, option: str) -> None:
    """Check that a background command does not prompt for a password.

    Raises:
        UsageError: an option causes a prompt.
    """
    prompt = next((key for key in PROMPTS if getattr(args, key)), None)
    if prompt is not None:
        message = f"--{prompt.replace('_', '-')} cannot be combined with {option}: use {_FILES[prompt]} FILE"
        raise UsageError(message)


def refuse_unreadable(sources: list[str], playbook: Path | None = None) -> None:
    """Check that every file of the inventory, and of the variables next to the playbook, is valid YAML.

    Raises:
        UsageError: names the invalid files, with line and column.
    """
    problems = yaml_problems(sources, playbook)
    if problems:
        message = "\n".join(["the inventory cannot be read:", *(f"  {problem}" for problem in problems)])
        raise UsageError(message)


def refuse_busy(sources: list[str]) -> None:
    """Check that no other run uses the inventory; the playbook's process repeats this and takes the lock.

    Raises:
        UsageError: names the other run.
    """
    try:
        refuse_if_locked(sources)
    except LockedError as exc:
        raise UsageError(str(exc)) from exc


def _choose_inventory(args: argparse.Namespace) -> tuple[list[str], str]:
    """Return the inventory's sources, and how they were chosen.

    Raises:
        UsageError: the inventory does not exist, or the options contradict each other.
    """
    if args.inventory and chosen(args):
        message = "use either -i for a cluster, or --sandbox or --name for a sandbox"
        raise UsageError(message)
    if chosen(args):
        return [str(inventory_of(args.name))], "sandbox"
    sources = args.inventory or [str(default_inventory())]
    for source in sources:
        if "," not in source and not Path(source).exists():
            message = f"inventory {source} not found: use -i or --sandbox"
            raise UsageError(message)
        if "," not in source and is_read_whole(source):
            message = (
                f"inventory {source}: logs, reports and secrets would be in the inventory folder, where"
                " Ansible reads every file: pass the inventory file, or rename the folder to inventory"
            )
            raise UsageError(message)
    return [source if "," in source else str(Path(source).resolve()) for source in sources], (
        "set with -i" if args.inventory else "default; change it with -i"
    )


def _ask_passwords(args: argparse.Namespace) -> dict[str, str]:
    """Prompt for the requested passwords, and return them by key of PROMPTS.

    Raises:
        UsageError: standard input is not a terminal.
    """
    wanted = [key for key in PROMPTS if getattr(args, key)]
    if not wanted:
        return {}
    try:
        Path("/dev/tty").open("rb").close()
    except OSError as exc:
        message = f"--{wanted[0].replace('_', '-')}: no terminal for the password prompt: use {_FILES[wanted[0]]} FILE"
        raise UsageError(message) from exc
    passwords: dict[str, str] = {}
    for key in wanted:
        word = getpass.getpass(_QUESTIONS[key])
        # As in Ansible, an empty sudo password means the SSH password.
        passwords[key] = word or (passwords.get("ask_pass", "") if key == "ask_become_pass" else "")
    return passwords
