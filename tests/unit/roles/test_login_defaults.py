"""Tests of the hosts where users may log in by default, by their groups in the inventory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

ROLES = Path(__file__).resolve().parents[3] / "roles"
Groups = dict[str, list[str]]

LARGE: Groups = {
    "slurm_controller": ["ctl1", "ctl2"],
    "slurm_database": ["db"],
    "nfs_server": ["nfs"],
    "monitoring": ["mon"],
    "slurm_login": ["login1"],
    "slurm_compute": ["gpu1"],
    "others": ["spare"],
}
# A single machine, and the lab of the examples: three hosts, one of which is controller and compute node but no login
# node.
ONE: Groups = {"slurm_controller": ["box"], "slurm_database": ["box"], "slurm_login": ["box"], "slurm_compute": ["box"]}
LAB: Groups = {
    "slurm_controller": ["desk3"],
    "slurm_database": ["desk3"],
    "slurm_login": [],
    "slurm_compute": ["desk1", "desk3"],
}
# Users log in to the controller if there is no login node, and to a controller that is also in slurm_login.
TWO: Groups = {"slurm_controller": ["ctl"], "slurm_compute": ["gpu1"]}
BOTH: Groups = {"slurm_controller": ["ctl"], "slurm_login": ["ctl", "login2"], "slurm_compute": ["gpu1"]}
SERVING: Groups = {
    "slurm_controller": ["ctl"],
    "slurm_login": ["login"],
    "nfs_server": ["gpu1"],
    "slurm_compute": ["gpu1"],
}


def _default(role: str, name: str, host: str, groups: Groups) -> bool:
    """Return the default of an option on a host of an inventory with only these groups."""
    files = [ROLES / role / name / "main.yml" for name in ("defaults", "vars")]
    defaults: dict[str, Any] = {key: each for file in files for key, each in yaml.safe_load(file.read_text()).items()}
    texts = {key: trust_as_template(value) for key, value in defaults.items() if isinstance(value, str)}
    every = {"all": sorted({name for names in groups.values() for name in names}), **groups}
    variables = {**defaults, **texts, "inventory_hostname": host, "groups": every}
    found = Templar(loader=DataLoader(), variables=variables).template(variables[name])
    assert isinstance(found, bool)
    return found


@pytest.mark.parametrize(
    ("groups", "host", "users", "word_of_a_node", "needs_a_job"),
    [
        *((LARGE, host, False, False, None) for host in ("ctl1", "ctl2", "db", "nfs", "mon")),
        (LARGE, "login1", True, True, None),
        (LARGE, "gpu1", True, True, True),
        (LARGE, "spare", True, True, None),
        (ONE, "box", True, False, False),
        (LAB, "desk3", True, False, False),
        (LAB, "desk1", True, True, True),
        (TWO, "ctl", True, False, None),
        (TWO, "gpu1", True, True, True),
        (BOTH, "ctl", True, False, None),
        (BOTH, "login2", True, True, None),
        (SERVING, "gpu1", True, False, True),
        (SERVING, "ctl", False, False, None),
    ],
)
def test_where_users_may_log_in(
    groups: Groups, host: str, *, users: bool, word_of_a_node: bool, needs_a_job: bool | None
) -> None:
    assert _default("ssh", "ssh_user_login", host, groups) is users
    assert _default("ssh", "ssh_hostbased_accept", host, groups) is word_of_a_node
    if needs_a_job is not None:
        assert _default("slurm", "slurm_pam_adopt", host, groups) is needs_a_job
