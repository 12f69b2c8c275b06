"""`busbar bundle`: creates, verifies and serves the files that hosts download, for sites without internet access."""

from __future__ import annotations

import http.server
import socket
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from busbar.bundle.create import create, problems_of
from busbar.bundle.manifest import KEY, MANIFEST, read_manifest
from busbar.bundle.plan import assigned_systems, make_plan
from busbar.doctor.inventory import secret_folders
from busbar.errors import UsageError
from busbar.image.bundle import make_key
from busbar.run.playbook import host_variables
from busbar.run.site import Site, add_run_options
from busbar.sandbox import state
from busbar.sandbox.option import chosen

if TYPE_CHECKING:
    import argparse

CREATE = """\
Downloads all files that the hosts of the inventory need: packages with their dependencies, resolved by apt or dnf in a
container of the hosts' system, Python packages, container images, signing keys, busbar and its documentation. No host
is contacted. The size is shown first. Run the command again to continue a download or to update the bundle.
"""
VERIFY = """\
Checks the signature, age and hashes of a bundle. With an inventory, also checks in a container without a network that
the bundle contains all packages of its hosts.
"""
SERVE = "Serves a bundle to the hosts over HTTP. Any other web server can publish the folder instead."
MAX_AGE = 90


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its actions."""
    parser = subparsers.add_parser("bundle", help="bundle the files that a site without internet access needs")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    make = actions.add_parser("create", help="create or update a bundle", description=CREATE)
    make.add_argument("folder", type=Path, metavar="FOLDER")
    make.add_argument(
        "--system",
        action="append",
        default=[],
        metavar="SYSTEM[=PATTERN]",
        help="system of all hosts, such as debian13, or of the hosts of a pattern, such as rocky9=slurm_compute",
    )
    make.add_argument("--size", action="store_true", help="only show the size")
    make.add_argument("--key", type=Path, help=f"signing key (default: {KEY} of the site, created on first use)")
    add_run_options(make)
    make.set_defaults(run=_create)
    check = actions.add_parser("verify", help="check a bundle", description=VERIFY)
    check.add_argument("folder", type=Path, metavar="FOLDER")
    check.add_argument(
        "--signer", type=Path, metavar="FILE.pub", help=f"expected public key (default: {KEY}.pub of the site)"
    )
    check.add_argument("--max-age", type=int, default=MAX_AGE, metavar="DAYS", help="default: %(default)s")
    add_run_options(check)
    check.set_defaults(run=_verify)
    offer = actions.add_parser("serve", help="serve a bundle over HTTP", description=SERVE)
    offer.add_argument("folder", type=Path, metavar="FOLDER")
    offer.add_argument("--listen", default="0.0.0.0:8000", metavar="ADDRESS:PORT", help="default: %(default)s")
    offer.set_defaults(run=_serve)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _secrets(site: Site) -> Path:
    """Return the folder of the secrets of a site."""
    return secret_folders(host_variables(site.playbook("steps/bundle")), site.folder)[0]


def _create(args: argparse.Namespace) -> int:
    """Create or update a bundle and return 0."""
    site = Site(args)
    systems = args.system or ([state.load(args.name).distribution] if chosen(args) else [])
    if args.key and not args.key.is_file():
        message = f"--key {args.key}: file not found"
        raise UsageError(message)
    plan = make_plan(site, assigned_systems(site, systems))
    key = args.key or make_key(_secrets(site), KEY)
    try:
        create(args.folder, plan, key, _say, only_size=args.size)
    except OSError as exc:
        message = f"{exc.filename or args.folder}: {exc.strerror or exc}. Fix the error, and run the command again"
        raise UsageError(message) from exc
    return 0


def _verify(args: argparse.Namespace) -> int:
    """Verify a bundle and return 0."""
    site = None if args.signer and not (args.inventory or chosen(args)) else Site(args)
    signer = args.signer if site is None or args.signer else _secrets(site) / f"{KEY}.pub"
    manifest = read_manifest(args.folder, signer)
    problems = problems_of(args.folder, manifest, args.max_age, site, _say)
    if problems:
        more = [f"and {len(problems) - 20} more"] if len(problems) > 20 else []  # noqa: PLR2004
        raise UsageError("\n  ".join([f"{args.folder}: the bundle cannot be used:", *problems[:20], *more]))
    print(
        f"{args.folder}: bundle of {manifest['plan']['cluster']}, {manifest['created']}, {len(manifest['files'])} files"
    )
    return 0


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the files of one folder, without directory listings."""

    protocol_version = "HTTP/1.1"
    # Buffering sends header and body together; separately, the body would wait for a TCP acknowledgement.
    wbufsize = -1

    def list_directory(self, path: Any) -> None:  # noqa: ANN401 - as in the base class
        """Return 404 instead of a directory listing."""
        del path
        self.send_error(404)

    def log_message(self, *words: Any) -> None:  # noqa: ANN401 - as in the base class
        """Log only errors."""

    def log_error(self, text: str, *words: Any) -> None:  # noqa: ANN401 - as in the base class
        """Log a failed request."""
        _say(f"{self.client_address[0]}: {getattr(self, 'path', '')}: {text % words}")


class Server(http.server.ThreadingHTTPServer):
    """An HTTP server with a backlog for many simultaneous connections."""

    request_queue_size = 128


def _serve(args: argparse.Namespace) -> int:
    """Serve a bundle until interrupted."""
    if not (args.folder / MANIFEST).is_file():
        message = f"{args.folder}: is not a bundle ({MANIFEST} is missing). Create one: busbar bundle create"
        raise UsageError(message)
    address, _, port = args.listen.rpartition(":")
    address = address.strip("[]")
    if not address or not port.isdigit():
        message = f"--listen {args.listen}: is not an address with a port, such as 192.0.2.1:8000"
        raise UsageError(message)
    Server.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        server = Server((address, int(port)), partial(Handler, directory=str(args.folder.resolve())))
    except (OSError, OverflowError) as exc:
        message = f"--listen {args.listen}: {exc}"
        raise UsageError(message) from exc
    with server:
        print(f"{args.folder}: served at http://{args.listen}/; stop with Ctrl-C", flush=True)
        server.serve_forever()
    return 0
