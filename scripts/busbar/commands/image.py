"""`busbar image`: images that nodes boot from the network, and the signed bundles that configure them."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from busbar.commands.doctor import INTERRUPTED
from busbar.commands.provision import add_run_options, ask_passwords, choose_inventory, own_folder, prompting_options
from busbar.doctor.inventory import secret_folders
from busbar.errors import UsageError
from busbar.image import bundle, contents, tree
from busbar.paths import collection
from busbar.run.display import make_display, summary
from busbar.run.events import Run
from busbar.run.inventory_check import refuse_unreadable
from busbar.run.playbook import Playbook, host_variables, hosts_counter, open_log, run_playbook
from busbar.sandbox.state import DISTRIBUTIONS

if TYPE_CHECKING:
    import argparse

__all__ = ["register"]

BUNDLE = """\
Makes what nodes configure themselves from: the roles, the Ansible that runs them, and those options of the inventory
that need no secret; signs it with the key of the cluster, and puts it into the folder in place of the one before. Nodes
that boot from then on take it. Each bundle has a higher serial than the last; nodes take none that is older.
"""
BUILD = """\
Makes an image for nodes like HOST: Debian, a kernel, and the software that the roles install, in a chroot. Nothing in
it tells one node from another, and nothing is secret; a trace of either ends the build. The folder, with the bundle
that must be there already, is what the role pxe_server publishes.
"""
# The halves of keys that anybody may know.
_PUBLIC = (".pub", ".crt", ".lock", "known_hosts", "ssh_host_keys.json")


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its actions."""
    parser = subparsers.add_parser("image", help="images for nodes that boot from the network, and signed bundles")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    make = actions.add_parser("bundle", help="make and sign what nodes configure themselves from", description=BUNDLE)
    make.add_argument("output", type=Path, metavar="FOLDER", help="where it is published")
    make.add_argument(
        "--key",
        type=Path,
        help="what signs, such as the public half of a key in ssh-agent (default: the cluster's own)",
    )
    add_run_options(make)
    make.set_defaults(run=_bundle)
    build = actions.add_parser("build", help="make the image of a compute node", description=BUILD)
    build.add_argument("output", type=Path, metavar="FOLDER", help="where it is published, with a bundle already in it")
    build.add_argument("--like", required=True, metavar="HOST", help="the host of the inventory whose options it has")
    build.add_argument("--url", required=True, help="where nodes find the bundle, such as http://192.0.2.1/")
    build.add_argument(
        "--authorized-key", required=True, type=Path, metavar="FILE.pub", help="the key with which busbar logs in"
    )
    build.add_argument("--distribution", choices=sorted(DISTRIBUTIONS), default="debian12")
    build.add_argument("--kernel", default=tree.KERNEL, metavar="PACKAGE", help="default: %(default)s")
    add_run_options(build)
    build.set_defaults(run=_build)


def _site(args: argparse.Namespace, playbook: str) -> tuple[Playbook, dict[str, dict[str, Any]], Path]:
    """Return a playbook on the inventory, the variables of its hosts, and the folder of the secrets."""
    inventory, _ = choose_inventory(args)
    path = collection() / "playbooks" / playbook
    refuse_unreadable(inventory, path)
    made = Playbook(path, inventory, [*args.options, *prompting_options(args)])
    variables = host_variables(made)
    if not variables:
        message = f"inventory {', '.join(inventory)}: has no host that could be read: busbar doctor tells more"
        raise UsageError(message)
    folders = secret_folders(variables, own_folder(inventory[0]))
    return made, variables, next(iter(folders))


def _secrets(folder: Path) -> dict[str, str]:
    """Return the secrets of a site as texts; what is no text is no option either."""
    if not folder.is_dir():
        return {}
    paths = [path for path in sorted(folder.iterdir()) if path.is_file() and not path.name.endswith(_PUBLIC)]
    return {path.name: path.read_text(encoding="utf-8", errors="replace").strip() for path in paths}


def _cluster(variables: dict[str, dict[str, Any]]) -> str:
    """Return the name of the cluster, which every host has.

    Raises:
        UsageError: hosts disagree.
    """
    names = {str(own.get("cluster_name", "busbar")) for own in variables.values()}
    if len(names) != 1 or any("{{" in name or not name.strip() for name in names):
        message = f"cluster_name: hosts of the inventory say {', '.join(sorted(names))}: set one plain name for all"
        raise UsageError(message)
    return names.pop()


def _bundle(args: argparse.Namespace) -> int:
    """Make, sign and publish; returns 0."""
    _, variables, folder = _site(args, "pull.yml")
    cluster = _cluster(variables)
    if args.key and not args.key.is_file():
        message = f"--key {args.key}: there is no such file"
        raise UsageError(message)
    inventory = contents.public_inventory(variables, collection() / "roles", _secrets(folder))
    content = bundle.archive(inventory)
    made = bundle.publish(content, cluster, args.key or bundle.make_key(folder), args.output)
    print(
        f"bundle of {cluster}: serial {made.serial}, {made.size / 1e6:.1f} MB, {len(variables)} hosts, in {args.output}"
    )
    return 0


def _build(args: argparse.Namespace) -> int:
    """Make the image; returns the exit code."""
    tree.check_host()
    playbook, variables, folder = _site(args, "image.yml")
    if args.like not in variables:
        message = f"--like {args.like}: the inventory has no such host"
        raise UsageError(message)
    own = variables[args.like]
    if "slurm_compute" not in own.get("group_names", []):
        message = f"--like {args.like}: is not in the group slurm_compute: name a compute node"
        raise UsageError(message)
    if not bundle.published_serial(args.output):
        message = f"{args.output} has no bundle, and an image ships one: busbar image bundle {args.output}"
        raise UsageError(message)
    try:
        key = args.authorized_key.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        message = f"--authorized-key {args.authorized_key}: {exc}"
        raise UsageError(message) from exc
    if "PRIVATE" in key or not key.startswith(("ssh-", "ecdsa-", "sk-")):
        message = f"--authorized-key {args.authorized_key}: is no public key of SSH: name the file that ends with .pub"
        raise UsageError(message)
    login = tree.Login(str(own.get("ansible_user", "root")), key)
    with tempfile.TemporaryDirectory(prefix="busbar-image-", dir=args.output) as work:
        root = Path(work) / "root"
        print(f"making {args.distribution} for nodes like {args.like}", flush=True)
        tree.make_tree(root, args.distribution, login, args.kernel)
        told: dict[str, object] = {"node_pull_url": args.url, "node_pull_shipped": str(args.output.resolve())}
        told |= tree.chroot_variables(root, args.like)
        playbook.options += ["--limit", args.like, "--tags", tree.TAGS, "-e", json.dumps(told)]
        playbook.passwords = ask_passwords(args)
        with tree.mounted(root):
            code = _play(playbook, own_folder(playbook.inventory[0]))
        if code:
            return code
        tree.seal(root)
        left = tree.traces(root, _secrets(folder))
        if left:
            message = f"the image was not made, since something in it is a node's own or secret: {'; '.join(left[:5])}"
            raise UsageError(message)
        tree.pack(root, args.output)
    size = (args.output / "root.squashfs").stat().st_size / 1e6
    print(f"image for nodes like {args.like}: {size:.0f} MB, in {args.output}")
    return 0


def _play(playbook: Playbook, site: Path) -> int:
    """Run the playbook with progress and a log; returns the exit code."""
    log = open_log(site / "logs", "image")
    display = make_display(skipped=False)
    run = Run(display, hosts_counter(playbook))
    with display:
        returned, interrupted = run_playbook(playbook, run, log)
    for line in summary(run) if returned else []:
        display.line(line)
    if interrupted:
        return INTERRUPTED
    return 1 if returned else 0
