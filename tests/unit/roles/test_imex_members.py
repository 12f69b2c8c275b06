"""Members of a host's NVLink rack, as the role nvidia_driver determines them for all hosts of a play."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plays import play_of, played

if TYPE_CHECKING:
    from pathlib import Path

RACK = {"hardware": "gb200_nvl72", "nvlink_domain": "rack1"}
HOSTS = {
    "t1": {**RACK, "ansible_host": "10.0.0.1"},
    "t2": {**RACK, "ansible_host": "10.0.0.2", "hosts_address": "tray2.site.org"},
    "u1": {**RACK, "nvlink_domain": "rack2", "ansible_host": "tray1.rack2.site.org"},
}


def test_invalid_address_is_reported_on_each_host_of_its_rack(tmp_path: Path) -> None:
    """Each host of the rack reports an invalid address, hosts of another rack do not; nothing is installed."""
    # The values of a Debian host.
    system = {"distribution": "Debian", "major": "12", "container": False}
    known = {"__nvidia_driver_required_facts": [], "__nvidia_driver_system": system}
    hosts = {"children": {"slurm_compute": {"hosts": HOSTS}}}
    code, said = played(tmp_path, play_of("nvidia_driver"), hosts, given=known)
    for host, address in (("t1", "tray2.site.org"), ("t2", "tray2.site.org"), ("u1", "tray1.rack2.site.org")):
        assert f"{host}: nvidia_driver_imex_nodes: {address}: not an address" in said, said
    assert code == 2
