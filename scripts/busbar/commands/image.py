"""`busbar image`: builds network boot images, and the signed bundles that configure nodes."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from busbar.doctor.inventory import secret_folders
from busbar.doctor.secrets import PUBLIC_SUFFIXES
from busbar.errors import UsageError
from busbar.image import bundle, bundle_inventory, rootfs
from busbar.paths import collection
from busbar.run.playbook import host_variables
from busbar.run.site import Site, add_run_options, explain
from busbar.sandbox.state import DISTRIBUTIONS

if TYPE_CHECKING:
    import argparse

    from busbar.run.playbook import Playbook

BUNDLE = """\
Creates the bundle from which nodes configure themselves: the roles, Ansible, and the options of the inventory
that need no secret. Signs it with the cluster key and replaces the previous bundle in the folder. Nodes
that boot from then on use it. The serial number increases with each bundle; nodes reject older bundles.
"""
BUILD = """\
Builds an image for nodes like HOST in a chroot: Debian, a kernel, and the software that the roles install. The image
contains nothing specific to a node and no secrets; otherwise the build fails. The folder, with the bundle
that must already exist there, is what the role pxe_server publishes.
"""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its actions."""
    parser = subparsers.add_parser("image", help="build images for network boot, and signed bundles")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    make = actions.add_parser(
        "bundle", help="create and sign the bundle from which nodes configure themselves", description=BUNDLE
    )
    make.add_argument("output", type=Path, metavar="FOLDER", help="folder that is published")
    make.add_argument(
        "--key",
        type=Path,
        help="signing key; for a key in ssh-agent its public key (default: the cluster key)",
    )
    add_run_options(make)
    make.set_defaults(run=_bundle)
    build = actions.add_parser("build", help="build the image of a compute node", description=BUILD)
    build.add_argument(
        "output", type=Path, metavar="FOLDER", help="published folder, which must already contain a bundle"
    )
    build.add_argument(
        "--like", required=True, metavar="HOST", help="host of the inventory whose options apply to the image"
    )
    build.add_argument("--url", required=True, help="URL from which nodes load the bundle, such as http://192.0.2.1/")
    build.add_argument(
        "--authorized-key",
        required=True,
        type=Path,
        metavar="FILE.pub",
        help="public key for busbar's logins",
    )
    build.add_argument("--distribution", choices=sorted(DISTRIBUTIONS), default="debian12")
    build.add_argument("--kernel", default=rootfs.KERNEL, metavar="PACKAGE", help="default: %(default)s")
    add_run_options(build)
    build.set_defaults(run=_build)


def _variables(site: Site, playbook: Playbook) -> tuple[dict[str, dict[str, Any]], Path]:
    """Return the variables of the hosts, and the folder of the secrets."""
    variables = host_variables(playbook)
    if not variables:
        message = f"inventory {', '.join(site.inventory)}: contains no readable host: run busbar doctor"
        raise UsageError(message)
    return variables, secret_folders(variables, site.folder)[0]


def _secrets(folder: Path) -> dict[str, str]:
    """Return the secrets of a site by file name."""
    if not folder.is_dir():
        return {}
    paths = [path for path in sorted(folder.iterdir()) if path.is_file() and not path.name.endswith(PUBLIC_SUFFIXES)]
    return {path.name: path.read_text(encoding="utf-8", errors="replace").strip() for path in paths}


def _cluster(variables: dict[str, dict[str, Any]]) -> str:
    """Return the name of the cluster.

    Raises:
        UsageError: hosts have different names.
    """
    names = {str(own.get("cluster_name", "busbar")) for own in variables.values()}
    if len(names) != 1 or any("{{" in name or not name.strip() for name in names):
        message = f"cluster_name: differs between hosts ({', '.join(sorted(names))}): set the same plain name for all"
        raise UsageError(message)
    return names.pop()


def _bundle(args: argparse.Namespace) -> int:
    """Create, sign and publish a bundle, and return 0."""
    site = Site(args)
    variables, folder = _variables(site, site.playbook("pull"))
    cluster = _cluster(variables)
    if args.key and not args.key.is_file():
        message = f"--key {args.key}: file not found"
        raise UsageError(message)
    inventory = bundle_inventory.public_inventory(variables, collection() / "roles", _secrets(folder))
    content = bundle.archive(inventory)
    made = bundle.publish(content, cluster, args.key or bundle.make_key(folder), args.output)
    print(
        f"bundle of {cluster}: serial {made.serial}, {made.size / 1e6:.1f} MB, {len(variables)} hosts, in {args.output}"
    )
    return 0


def _build(args: argparse.Namespace) -> int:
    """Build the image and return the exit code."""
    rootfs.check_host()
    site = Site(args)
    playbook = site.playbook("image")
    variables, folder = _variables(site, playbook)
    if args.like not in variables:
        message = f"--like {args.like}: is not a host of the inventory {', '.join(site.inventory)}: use a compute node"
        raise UsageError(message)
    own = variables[args.like]
    if "slurm_compute" not in own.get("group_names", []):
        message = f"--like {args.like}: is not in the group slurm_compute: use a compute node"
        raise UsageError(message)
    if not bundle.published_serial(args.output):
        message = f"{args.output} has no bundle, but an image requires one: busbar image bundle {args.output}"
        raise UsageError(message)
    try:
        key = args.authorized_key.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        message = f"--authorized-key {args.authorized_key}: {exc}"
        raise UsageError(message) from exc
    if "PRIVATE" in key or not key.startswith(("ssh-", "ecdsa-", "sk-")):
        message = f"--authorized-key {args.authorized_key}: not an SSH public key; use the file that ends with .pub"
        raise UsageError(message)
    login = rootfs.Login(str(own.get("ansible_user", "root")), key)
    with tempfile.TemporaryDirectory(prefix="busbar-image-", dir=args.output) as work:
        root = Path(work) / "root"
        print(f"building {args.distribution} for nodes like {args.like}", flush=True)
        rootfs.install_debian(root, args.distribution, login, args.kernel)
        chroot_options: dict[str, object] = {"node_pull_url": args.url, "node_pull_shipped": str(args.output.resolve())}
        chroot_options |= rootfs.chroot_variables(root, args.like)
        options = ["--limit", args.like, "--tags", rootfs.TAGS, "-e", json.dumps(chroot_options)]
        with rootfs.mounted(root):
            run = site.ask(playbook, *options, log="image")
        if run.returned:
            explain(run)
            return 1
        rootfs.seal(root)
        left = rootfs.traces(root, _secrets(folder))
        if left:
            message = (
                f"the image was not built, because it contains node-specific data or secrets: {'; '.join(left[:5])}"
            )
            raise UsageError(message)
        rootfs.pack(root, args.output)
    size = (args.output / "root.squashfs").stat().st_size / 1e6
    print(f"image for nodes like {args.like}: {size:.0f} MB, in {args.output}")
    return 0
