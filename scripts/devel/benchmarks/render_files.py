"""The part of the benchmark render that renders, in a process of its own, which measures itself."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar, trust_as_template
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager
from busbar.paths import collection, collections_root

from devel.measured import peak_kib

_ROLES = ("site", "hosts", "node_health", "prometheus", "slurm")
_FILES = {
    "slurm.conf": "slurm/templates/etc/slurm/slurm.conf.j2",
    "gres.conf": "slurm/templates/etc/slurm/gres.conf.j2",
    "topology.conf": "slurm/templates/etc/slurm/topology.conf.j2",
}
# As the tasks of the roles say it.
_PLAN = "{{ slurm_nodes | busbar.cluster.slurm_plan(hostvars, __slurm_declared) }}"
_HOSTS = (
    "{{ hosts_cluster | busbar.cluster.cluster_entries(hostvars, domain=hosts_domain)"
    " | busbar.cluster.hosts_block(hosts_extra) }}"
)
_TARGETS = "{{ prometheus_jobs | busbar.cluster.scrape_targets(hostvars, prometheus_catalogue) }}"


def _variables(loader: DataLoader) -> dict[str, Any]:
    """Defaults and variables of the roles that write the files, on a controller with Debian 12."""
    found: dict[str, Any] = {"ansible_facts": {"architecture": "x86_64"}, "ansible_check_mode": False}
    roles = collection() / "roles"
    for role in _ROLES:
        for file in ("defaults/main.yml", "vars/main.yml", "vars/Debian.yml", "vars/Debian_12.yml"):
            if (roles / role / file).exists():
                found |= loader.load_from_file(str(roles / role / file), trusted_as_template=True) or {}
    return found


def _render(folder: Path) -> None:
    """Render all files into a folder, and print what that took."""
    init_plugin_loader([str(collections_root())])
    used = time.process_time()
    loader = DataLoader()
    hosts = InventoryManager(loader, [str(folder / "hosts.yml")])
    variables = VariableManager(loader, hosts)
    inventory_cpu = time.process_time() - used
    roles = _variables(loader)
    began, used = time.monotonic(), time.process_time()
    hostvars = HostVars(hosts, variables, loader)
    known = roles | variables.get_vars(host=hosts.get_host("ctl"), include_hostvars=False) | {"hostvars": hostvars}
    templar = Templar(loader, variables=known)

    def worked_out(text: str) -> Any:  # noqa: ANN401 - what the template gives
        return templar.template(trust_as_template(text))

    known["__slurm_plan"] = worked_out(_PLAN)
    templar.available_variables = known
    texts = {"hosts": worked_out(_HOSTS)}
    if known["__slurm_plan"]["problems"]:
        raise SystemExit(json.dumps(known["__slurm_plan"]["problems"]))
    for name, path in _FILES.items():
        texts[name] = worked_out(f"{{{{ lookup('ansible.builtin.template', '{collection() / 'roles' / path}') }}}}")
    texts["targets"] = "".join(file["content"] for file in worked_out(_TARGETS))
    for name, text in texts.items():
        (folder / name).write_text(str(text), encoding="utf-8")
    answer = {
        "inventory_cpu": inventory_cpu,
        "wall": time.monotonic() - began,
        "cpu": time.process_time() - used,
        "peak_kib": peak_kib(),
        "sizes": {name: len(text) for name, text in texts.items()},
    }
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    _render(Path(sys.argv[1]))
