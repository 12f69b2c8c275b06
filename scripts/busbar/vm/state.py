"""Which machines there are, what they are made of, and where their parts lie."""

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
        disks: serial number to size in bytes of its further disks, `/dev/disk/by-id/virtio-SERIAL` inside.
        data_disks: those of them that carry a file system with data from the start.
        spare_disks: those of them that the inventory gives to nobody.
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
        """Its address on a network that does not belong to the cluster; same wire."""
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
    """Two machines that stand beside each other.

    Attributes:
        name: the group's name; its folder and the names of its processes derive from it.
        accelerator: what QEMU runs them with, ``kvm`` or ``tcg``.
        ports: machine name to the port of this host's loopback that leads to its sshd.
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
        """Configuration for `ssh -F`, with which a machine is reached by its name."""
        return self.path / "ssh" / "config"

    def machine(self, name: str) -> Machine:
        """The machine of that name.

        Raises:
            UsageError: there is none.
        """
        for machine in MACHINES:
            if machine.name == name:
                return machine
        msg = f"machines {self.name}: there is no {name!r}, only {', '.join(machine.name for machine in MACHINES)}"
        raise UsageError(msg)

    def file(self, name: str, kind: str) -> Path:
        """A file of a machine: ``pid``, ``console``, ``monitor``, ``wire``, ``root.qcow2`` or ``SERIAL.disk``."""
        return self.path / f"{name}.{kind}"

    def save(self) -> None:
        """Write the state so that a run killed at any moment leaves the old or the new one."""
        self.path.mkdir(parents=True, exist_ok=True)
        fresh = self.path / "machines.json.new"
        fresh.write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n", encoding="utf-8")
        fresh.replace(self.path / "machines.json")


def load(name: str) -> Group:
    """The state of an existing group.

    Raises:
        UsageError: there is none of that name, or its state cannot be read.
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
