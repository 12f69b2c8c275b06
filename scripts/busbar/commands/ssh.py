"""`busbar ssh`: establishes first contact with the hosts of an inventory, and renews their certificates."""

from __future__ import annotations

import argparse
import getpass
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.printable import printable

from busbar.errors import UsageError, require_ansible
from busbar.paths import collection
from busbar.run.site import refuse_unreadable
from busbar.sandbox.option import add_sandbox, chosen
from busbar.sandbox.state import inventory_of

_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")

if TYPE_CHECKING:
    from collections.abc import Mapping

    from busbar.ssh.bootstrap import Outcome
    from busbar.ssh.host_keys import Target

PASSWORD_VARIABLE = "BUSBAR_SSH_PASSWORD"  # noqa: S105 - a variable name
DEFAULT_KEYS = ("id_ed25519.pub", "id_ecdsa.pub", "id_rsa.pub")
DESCRIPTION = """\
Installs your public key on every host of the inventory where it is missing. Hosts that already have it are not changed;
for the others the password is requested once. An unknown host key is shown first: nothing is sent before you
confirm it or pass its fingerprint. Hosts with a changed or revoked host key are refused.
"""
TIMER = """\
Installs a systemd timer that runs `busbar provision base --tags ssh` on this machine, which has the CA key. The timer
needs an SSH key without passphrase, and passwordless sudo on the hosts. Root gets a system timer, other users get a
user timer.
"""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its actions."""
    parser = subparsers.add_parser("ssh", help="install SSH keys on new hosts, and renew host certificates")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    timer = actions.add_parser("timer", help="renew host certificates every week", description=TIMER)
    timer.add_argument("-i", "--inventory", type=Path, default=Path("inventory"), help="inventory (default: inventory)")
    timer.add_argument("--calendar", default="weekly", metavar="TIME", help="systemd's OnCalendar (default: weekly)")
    timer.add_argument("--remove", action="store_true", help="remove the timer")
    timer.set_defaults(run=run_timer)
    action = actions.add_parser("bootstrap", help="install your public key on all hosts", description=DESCRIPTION)
    action.add_argument("-i", "--inventory", help="inventory (default: inventory)")
    add_sandbox(action)
    action.add_argument("--limit", default="all", metavar="PATTERN", help="limit hosts, like Ansible's --limit")
    action.add_argument("--user", help="login user (default: ansible_user or your user)")
    action.add_argument("--key", type=Path, metavar="PUBKEY", help="public key (default: the first key in ~/.ssh)")
    action.add_argument("--known-hosts", type=Path, metavar="FILE", help="(default: ~/.ssh/known_hosts)")
    action.add_argument(
        "--fingerprint",
        action="append",
        type=host_fingerprint,
        default=[],
        metavar="HOST=SHA256:…",
        help="trusted host key, as `ssh-keygen -lf` shows it; can be repeated",
    )
    action.add_argument("--sudo", action="store_true", help="also configure passwordless sudo for the user")
    words = f"read the password from a file (default: {PASSWORD_VARIABLE} or a prompt)"
    action.add_argument("--password-file", type=Path, metavar="FILE", help=words)
    action.set_defaults(run=run_bootstrap)


def run_timer(args: argparse.Namespace) -> int:
    """Install or remove the timer and return 0."""
    require_ansible()
    from busbar.run.timer import Timer  # noqa: PLC0415 - the other action does not need it

    inventory = args.inventory.expanduser().resolve()
    if not args.remove and not inventory.exists():
        message = f"inventory {args.inventory}: no such file or folder"
        raise UsageError(message)
    words = ("provision", "base", "-i", "--tags", "ssh")
    effect = "it runs `busbar provision base --tags ssh`, which renews certificates in the last third of their validity"
    does = "Renew the SSH certificates of the cluster"
    timer = Timer(inventory, "busbar-ssh-renew", does, words, effect, args.calendar)
    print(timer.remove() if args.remove else "\n".join(timer.install()))
    return 0


def host_fingerprint(text: str) -> tuple[str, str]:
    """Parse a host and the fingerprint of its key (argparse type)."""
    host, _, print_ = text.partition("=")
    if not host or not _FINGERPRINT.fullmatch(print_):
        msg = f"{text!r} is not HOST=SHA256:… with a fingerprint as `ssh-keygen -lf` shows it"
        raise argparse.ArgumentTypeError(msg)
    return host, print_


def run_bootstrap(args: argparse.Namespace) -> int:
    """Install the key on all hosts and return 0 if every host accepts it, otherwise 1."""
    require_ansible()
    from busbar.ssh import bootstrap, host_keys  # noqa: PLC0415 - needs cryptography

    public = public_key_file(args.key)
    private = public.with_suffix("")
    known = args.known_hosts or Path.home() / ".ssh" / "known_hosts"
    from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.hostlist import (  # noqa: PLC0415 - slow import
        fold_hosts,
    )

    inventory = inventory_source(args)
    targets, clusters = read_targets(inventory, args.limit, args.user)
    check_hosts(args.fingerprint, targets)
    try:
        known_hosts = host_keys.KnownHosts(known.expanduser(), *clusters)
    except (OSError, UnicodeDecodeError) as exc:
        message = f"{known}: cannot be read: {exc}"
        raise UsageError(message) from exc
    login = bootstrap.Login(
        public_key=read_public_key(public),
        private_key=private if private.is_file() else None,
        known_hosts=known_hosts,
        sudo=args.sudo,
    )
    print(f"inventory {inventory}: {fold_hosts(target.name for target in targets)}; key {public}", flush=True)
    outcomes = bootstrap.bootstrap(targets, login, lambda fresh: confirm_keys(fresh, args), lambda: password(args))
    show(outcomes)
    return 0 if all(outcome.ok for outcome in outcomes) else 1


def inventory_source(args: argparse.Namespace) -> str:
    """Return the path of the inventory or of the sandbox's inventory.

    Raises:
        UsageError: the options contradict each other, or the sandbox does not exist.
    """
    if args.inventory and chosen(args):
        message = "use either -i for hosts, or --sandbox or --name for a sandbox"
        raise UsageError(message)
    return str(inventory_of(args.name)) if chosen(args) else args.inventory or "inventory"


def public_key_file(given: Path | None) -> Path:
    """Return the path of the public key to install.

    Raises:
        UsageError: no key is found.
    """
    home = Path.home() / ".ssh"
    candidates = [given.expanduser()] if given else [home / name for name in DEFAULT_KEYS]
    for path in candidates:
        if path.is_file():
            return path
    message = f"{given}: no such file" if given else f"no public key in {home}: create one with `ssh-keygen -t ed25519`"
    raise UsageError(message)


def read_public_key(path: Path) -> str:
    """Return the public key as one line.

    Raises:
        UsageError: the file contains anything else; this also ensures that a private key is never sent.
    """
    try:
        lines = [line.strip() for line in path.read_text().splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as exc:
        message = f"{path}: cannot be read: {exc}"
        raise UsageError(message) from exc
    if len(lines) != 1 or not lines[0].startswith(("ssh-", "ecdsa-", "sk-")):
        message = f"{path}: is not a public key (expected one line that starts with the key type): use the .pub file"
        raise UsageError(message)
    return lines[0]


def check_hosts(given: list[tuple[str, str]], targets: list[Target]) -> None:
    """Check that every fingerprint belongs to a host of this run.

    Raises:
        UsageError: a fingerprint belongs to another host.
    """
    names = {name for target in targets for name in (target.name, target.address)}
    strangers = sorted({host for host, _ in given} - names)
    if strangers:
        message = f"--fingerprint: {strangers[0]} is not a host of this run: use its name or address in the inventory"
        raise UsageError(message)


def confirm_keys(fresh: Mapping[Target, str], args: argparse.Namespace) -> dict[Target, str]:
    """Show unknown host keys for confirmation before anything is sent, and return the reasons for refused hosts."""
    given: dict[str, set[str]] = {}
    for host, print_ in args.fingerprint:
        given.setdefault(host, set()).add(print_)
    expected = {target: given.get(target.name, set()) | given.get(target.address, set()) for target in fresh}
    shown = {target: text.split()[-1] for target, text in fresh.items()}
    wrong = {
        target: f"has the host key {fresh[target]}, which does not match --fingerprint"
        for target, prints in expected.items()
        if prints and shown[target] not in prints
    }
    unconfirmed = [target for target, prints in expected.items() if not prints]
    if not unconfirmed:
        return wrong
    print("host keys seen for the first time:")
    for target in unconfirmed:
        print(f"  {target.name} {fresh[target]}")
    print("compare each with the output on its console: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub", flush=True)
    if sys.stdin.isatty():
        return wrong if _confirmed() else wrong | dict.fromkeys(unconfirmed, "its host key was not confirmed")
    return wrong | {
        target: f"its host key is unknown (to accept it: --fingerprint {target.name}={shown[target]})"
        for target in unconfirmed
    }


def _confirmed() -> bool:
    """Ask whether the shown host keys are correct until the answer is yes or no; end of input means no."""
    question = "Are all of them correct? (yes/no) "
    while True:
        try:
            answer = input(question).strip().lower()
        except EOFError:
            return False
        if answer in {"yes", "no"}:
            return answer == "yes"
        question = "Please type 'yes' or 'no': "


def read_targets(inventory: str, limit: str, user: str | None) -> tuple[list[Target], list[Path]]:
    """Return the hosts of an inventory that match a pattern, and the known_hosts files of their clusters.

    Raises:
        UsageError: the inventory cannot be read, or the pattern matches no host.
    """
    from ansible.errors import AnsibleError  # noqa: PLC0415 - Ansible takes long to load
    from ansible.inventory.manager import InventoryManager  # noqa: PLC0415
    from ansible.parsing.dataloader import DataLoader  # noqa: PLC0415
    from ansible.template import Templar  # noqa: PLC0415
    from ansible.vars.manager import VariableManager  # noqa: PLC0415

    from busbar.ssh.host_keys import Target  # noqa: PLC0415

    if not Path(inventory).exists():
        message = f"inventory {inventory}: no such file or folder"
        raise UsageError(message)
    refuse_unreadable([inventory])

    def value(variables: dict[str, Any], key: str, default: object) -> str:
        return str(Templar(loader=loader, variables=variables).template(variables.get(key, default)))

    def target(name: str, variables: dict[str, Any]) -> Target:
        login = user or value(variables, "ansible_user", getpass.getuser())
        port = int(value(variables, "ansible_port", 22))
        words = ("ansible_ssh_common_args", "ansible_ssh_extra_args")
        arguments = " ".join(value(variables, each, "") for each in words).strip()
        return Target(name, value(variables, "ansible_host", name), port, login, arguments)

    loader = DataLoader()
    shared: dict[str, Any] = {}
    try:
        manager = InventoryManager(loader=loader, sources=[inventory])
        hosts = manager.get_hosts(limit)
        variables = VariableManager(loader=loader, inventory=manager)
        known = [variables.get_vars(host=host) for host in hosts]
        targets = [target(host.name, own) for host, own in zip(hosts, known)]
        for kind in ("vars", "defaults"):
            shared |= loader.load_from_file(
                str(collection() / "roles/site" / kind / "main.yml"), trusted_as_template=True
            )
        folders = sorted({value(shared | own, "cluster_secrets_dir", "") for own in known})
    except (AnsibleError, ValueError) as exc:
        message = f"inventory {inventory}: {exc}"
        raise UsageError(message) from exc
    if not targets:
        message = f"inventory {inventory}: no host matches {limit!r}"
        raise UsageError(message)
    return targets, [Path(folder) / "known_hosts" for folder in folders]


def password(args: argparse.Namespace) -> str:
    """Return the password from the file, the environment or a prompt, in this order.

    Raises:
        UsageError: a prompt is needed but standard input is not a terminal.
    """
    if args.password_file:
        try:
            return str(args.password_file.expanduser().read_text()).rstrip("\n")
        except (OSError, UnicodeDecodeError) as exc:
            message = f"{args.password_file}: cannot be read: {exc}"
            raise UsageError(message) from exc
    given = os.environ.get(PASSWORD_VARIABLE)
    if given:
        return given
    if not sys.stdin.isatty():
        message = f"some hosts require a password: set {PASSWORD_VARIABLE} or use --password-file"
        raise UsageError(message)
    return getpass.getpass("Password for the hosts without the key: ")


def show(outcomes: list[Outcome]) -> None:
    """Print one line for all hosts with the same outcome."""
    from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.hostlist import (  # noqa: PLC0415 - slow import
        fold_hosts,
    )

    groups: dict[tuple[bool, str, str], list[str]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.ok, outcome.message, outcome.remedy), []).append(outcome.name)
    for (ok, message, remedy), names in sorted(groups.items(), reverse=True):
        hint = f" ({remedy})" if remedy else ""
        print(printable(f"{'ok' if ok else 'FAILED'}: {fold_hosts(names)}: {message}{hint}"))
