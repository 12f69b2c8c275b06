"""The inventory of a group of machines, for busbar and plain `ansible-playbook -i`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from busbar.sandbox.image import ADMIN
from busbar.sandbox.own_files import write_own
from busbar.vm.state import MACHINES

if TYPE_CHECKING:
    from collections.abc import Callable

    from busbar.vm.state import Group

__all__ = ["hosts", "site_variables", "write_inventory"]

COMMAND = "vm up"


def hosts(group: Group) -> dict[str, Any]:
    """Return the content of hosts.yml; this host reaches a machine at a local port, other machines at its address."""
    children: dict[str, Any] = {}
    for machine in MACHINES:
        reached = {"ansible_host": "127.0.0.1", "ansible_port": group.ports[machine.name]}
        own: dict[str, Any] = {"hosts_address": machine.address}
        others = (*machine.data_disks, *machine.spare_disks)
        empty = [f"/dev/disk/by-id/virtio-{serial}" for serial in machine.disks if serial not in others]
        if empty:
            own["scratch_devices"] = empty
        for name in machine.groups:
            children.setdefault(name, {"hosts": {}})["hosts"][machine.name] = {}
        children[machine.groups[0]]["hosts"][machine.name] = reached | own
    return {"all": {"children": children}}


def site_variables(group: Group) -> dict[str, Any]:
    """Return the content of group_vars/all: typical settings of a file server and its client."""
    keys = group.path / "ssh"
    known = f"{keys / 'known_hosts'} {group.path / 'secrets' / 'known_hosts'}"
    return {
        "ansible_user": ADMIN,
        # Without KVM the machine is emulated, and on a busy host sudo may take longer than the 20 s in ansible.cfg.
        "ansible_ssh_timeout": 120,
        "ansible_ssh_private_key_file": str(keys / "id_ed25519"),
        # The machines may be slow emulations, and some tests restart them.
        "ansible_ssh_common_args": (
            f"-o IdentitiesOnly=yes -o UserKnownHostsFile='{known}' -o ServerAliveInterval=10 -o ServerAliveCountMax=3"
        ),
        "ansible_python_interpreter": "/usr/bin/python3",
        "cluster_name": group.name,
        # ansible_port is a port of this host that is forwarded to the machine.
        "ssh_port": 22,
        "nfs_server_exports": [{"path": "/shared"}, {"path": "/projects", "mode": "1777"}],
        "users_home_base": "/shared/home",
        "users_groups": [{"name": "research", "gid": 2000}],
        "users_accounts": [
            {"name": "alice", "uid": 2001, "group": "research", "comment": "Alice"},
            {"name": "bob", "uid": 2002, "group": "research", "comment": "Bob"},
        ],
    }


def write_inventory(group: Group, say: Callable[[str], None] = lambda _: None) -> None:
    """Write busbar's files of the inventory; the user's files stay unchanged."""
    variables = group.inventory / "group_vars" / "all"
    variables.mkdir(parents=True, exist_ok=True)
    write_own(group.inventory / "hosts.yml", hosts(group), COMMAND, say)
    write_own(variables / "zz_site.yml", site_variables(group), COMMAND, say)
