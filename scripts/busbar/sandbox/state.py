"""The state of a sandbox on disk, its properties and the names of its parts."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from busbar.errors import UsageError
from busbar.paths import checkout

if TYPE_CHECKING:
    from collections.abc import Iterator

LABEL = "io.busbar.sandbox"
SHARED = "/shared"
# The two controllers share this folder; the other nodes do not see it.
STATE = "/state"
# Suites of Debian, for mmdebstrap, which needs no registry.
DISTRIBUTIONS = {"debian12": "bookworm", "debian13": "trixie"}
# The others start from the image of the distribution.
IMAGES = {
    "alma9": "docker.io/library/almalinux:9",
    "rocky10": "docker.io/rockylinux/rockylinux:10",
    "rocky9": "docker.io/rockylinux/rockylinux:9",
    "ubuntu2204": "docker.io/library/ubuntu:22.04",
    "ubuntu2404": "docker.io/library/ubuntu:24.04",
    "ubuntu2604": "docker.io/library/ubuntu:26.04",
}
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")
FIRST_COMPUTE_ADDRESS = 20
MAX_COMPUTE = 200


@dataclasses.dataclass
class Sandbox:
    """The declared properties of a sandbox; podman stores the rest.

    Attributes:
        name: name of the sandbox, from which the names of its containers, network and folder derive.
        distribution: key of DISTRIBUTIONS or IMAGES; empty with `image`.
        image: OCI image that the nodes start from instead.
        compute: number of compute nodes.
        gpus: simulated GPUs per compute node.
        controllers: 1, or 2 with a backup for slurmctld and slurmdbd.
        subnet: first three octets of its /24, for instance ``10.209.7``; empty before its network exists.
        faults: active faults from `busbar sandbox fault`, in order.
    """

    name: str
    distribution: str = "debian13"
    image: str = ""
    compute: int = 2
    gpus: int = 2
    controllers: int = 1
    subnet: str = ""
    faults: list[dict[str, str]] = dataclasses.field(default_factory=list)

    @property
    def path(self) -> Path:
        """The sandbox's state folder."""
        return sandbox_path(self.name)

    @property
    def shared(self) -> Path:
        """The folder on this machine that nodes mount as SHARED; its parent folder keeps out other users."""
        return self.path / "storage" / "shared"

    @property
    def controller_state(self) -> Path:
        """The folder on this machine that two controllers mount as STATE."""
        return self.path / "storage" / "state"

    @property
    def controller_nodes(self) -> list[str]:
        """Names of the controllers, the primary first."""
        return ["ctl", "ctl2"][: self.controllers]

    @property
    def network(self) -> str:
        """The name of its podman network."""
        return f"busbar-{self.name}"

    @property
    def compute_nodes(self) -> list[str]:
        """Names of the compute nodes."""
        return [f"gpu{number}" for number in range(1, self.compute + 1)]

    @property
    def nodes(self) -> list[str]:
        """Names of all nodes, the controller first."""
        return [*self.controller_nodes, "login", *self.compute_nodes]

    def container(self, node: str) -> str:
        """Return the name of a node's container.

        Raises:
            UsageError: the sandbox has no such node.
        """
        if node not in self.nodes:
            msg = f"sandbox {self.name} has no node {node!r} (nodes: {', '.join(self.nodes)})"
            raise UsageError(msg)
        return f"{self.network}-{node}"

    def address(self, node: str) -> str:
        """Return the IPv4 address of a node."""
        fixed = {"ctl": 10, "login": 11, "ctl2": 12}
        host = fixed[node] if node in fixed else FIRST_COMPUTE_ADDRESS + int(node.removeprefix("gpu"))
        return f"{self.subnet}.{host}"

    def save(self) -> None:
        """Write the state atomically."""
        self.path.mkdir(parents=True, exist_ok=True)
        fresh = self.path / "sandbox.json.new"
        fresh.write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n", encoding="utf-8")
        fresh.replace(self.path / "sandbox.json")


def sandbox_root() -> Path:
    """Return the folder of all sandboxes: in the checkout, or in the user's state folder if busbar is installed."""
    top = checkout()
    if top is not None:
        return top / ".sandbox"
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "busbar" / "sandbox"


def default_name() -> str:
    """Return the default name, which differs per checkout, so that two checkouts do not share a sandbox."""
    top = checkout()
    where = str(top or sandbox_root())
    stem = re.sub(r"[^a-z0-9]+", "-", Path(top or "busbar").name.lower()).strip("-")[:20] or "busbar"
    return f"{stem}-{hashlib.sha256(where.encode()).hexdigest()[:6]}"


def sandbox_path(name: str) -> Path:
    """Return the state folder of a sandbox.

    Raises:
        UsageError: the name is invalid in host, network or folder names.
    """
    if not _NAME.fullmatch(name):
        msg = f"sandbox name {name!r}: use 1 to 32 lower-case letters, digits and inner hyphens"
        raise UsageError(msg)
    return sandbox_root() / name


def load(name: str | None = None) -> Sandbox:
    """Load an existing sandbox.

    Raises:
        UsageError: the sandbox does not exist, or its state cannot be read.
    """
    name = name or default_name()
    path = sandbox_path(name) / "sandbox.json"
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        # Keys from earlier versions.
        for key in ("databases", "storage"):
            known.pop(key, None)
        return Sandbox(**known)
    except FileNotFoundError:
        msg = f"sandbox {name!r} does not exist here; create it with: busbar sandbox up --name {name}"
        raise UsageError(msg) from None
    except (OSError, ValueError, TypeError) as exc:
        msg = f"{path}: {exc}; remove the sandbox with: busbar sandbox down --name {name}"
        raise UsageError(msg) from exc


def inventory_of(name: str | None = None) -> Path:
    """Return the inventory folder of an existing sandbox.

    Raises:
        UsageError: the sandbox does not exist.
    """
    return load(name).path / "inventory"


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Lock the sandbox, so that two commands do not build or remove it at the same time.

    Raises:
        UsageError: another command holds the lock.
    """
    lock = sandbox_path(name).with_name(f".{name}.lock")
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            current = lock.exists() and lock.stat().st_ino == os.fstat(handle.fileno()).st_ino
        except BlockingIOError:
            current = False
        if not current:
            msg = f"sandbox {name}: another busbar command is using it; wait until it ends"
            raise UsageError(msg)
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                lock.parent.rmdir()
