"""The state of the machines: their properties and files."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

from busbar.errors import UsageError
from busbar.sandbox.state import sandbox_path

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["MACHINES", "Group", "Machine", "load"]

GIB = 1 << 30
INSIDE, OUTSIDE = "10.77.0", "10.77.1"


@dataclasses.dataclass(frozen=True)
class Machine:
    """A machine of a group.

    Attributes:
        name: its host name.
        number: its last octet on both networks that the machines share.
        groups: its inventory groups.
        disks: sizes in bytes of its additional disks by serial number (`/dev/disk/by-id/virtio-SERIAL` in the machine).
        data_disks: additional disks that initially contain a file system with data.
        spare_disks: additional disks that the inventory does not use.
    """

    name: str
    number: int
    groups: tuple[str, ...]
    disks: dict[str, int] = dataclasses.field(default_factory=dict)
    data_disks: tuple[str, ...] = ()
    spare_disks: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """Its address within the cluster."""
        return f"{INSIDE}.{self.number}"

    @property
    def outside_address(self) -> str:
        """Its address on a network outside the cluster, on the same link."""
        return f"{OUTSIDE}.{self.number}"


MACHINES = (
    Machine("nfs1", 10, ("nfs_server",)),
    Machine(
        "client1",
        11,
        ("nfs_client", "scratch"),
        disks={"scratch0": GIB, "scratch1": GIB, "data0": GIB, "spare0": GIB, "spare1": GIB},
        data_disks=("data0",),
        spare_disks=("spare0", "spare1"),
    ),
)


@dataclasses.dataclass
class Group:
    """Two connected machines.

    Attributes:
        name: name of the group, from which the names of its folder and processes derive.
        accelerator: QEMU's accelerator, ``kvm`` or ``tcg``.
        ports: loopback ports of this host by machine name, forwarded to the machine's sshd.
    """

    name: str
    accelerator: str = "tcg"
    ports: dict[str, int] = dataclasses.field(default_factory=dict)

    @property
    def path(self) -> Path:
        """The group's state folder."""
        return sandbox_path(self.name)

    @property
    def inventory(self) -> Path:
        """Its inventory folder."""
        return self.path / "inventory"

    @property
    def ssh_config(self) -> Path:
        """Configuration for `ssh -F` with the names of the machines."""
        return self.path / "ssh" / "config"

    def machine(self, name: str) -> Machine:
        """Return a machine by name.

        Raises:
            UsageError: no machine has that name.
        """
        for machine in MACHINES:
            if machine.name == name:
                return machine
        msg = f"machines {self.name}: there is no {name!r}, only {', '.join(machine.name for machine in MACHINES)}"
        raise UsageError(msg)

    def file(self, name: str, kind: str) -> Path:
        """Return the path of a file: ``pid``, ``console``, ``monitor``, ``wire``, ``root.qcow2`` or ``SERIAL.disk``."""
        return self.path / f"{name}.{kind}"

    def save(self) -> None:
        """Write the state atomically."""
        self.path.mkdir(parents=True, exist_ok=True)
        fresh = self.path / "machines.json.new"
        fresh.write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n", encoding="utf-8")
        fresh.replace(self.path / "machines.json")


def load(name: str) -> Group:
    """Load an existing group.

    Raises:
        UsageError: no group has that name, or its state cannot be read.
    """
    path = sandbox_path(name) / "machines.json"
    try:
        return Group(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        msg = f"no virtual machines {name!r} here; make them with: busbar vm up --name {name}"
        raise UsageError(msg) from None
    except (OSError, ValueError, TypeError) as exc:
        msg = f"{path}: {exc}; remove the machines with: busbar vm down --name {name}"
        raise UsageError(msg) from exc
