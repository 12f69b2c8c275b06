"""Limits that healthy nodes would break are refused before a node is touched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import yaml
from busbar.paths import collection

if TYPE_CHECKING:
    from pathlib import Path

PLAY = [
    {
        "hosts": "gpu1",
        "gather_facts": False,
        "tasks": [
            {
                "name": "Check the options",
                "ansible.builtin.include_role": {"name": "busbar.cluster.node_health", "tasks_from": "options"},
            }
        ],
    }
]
# At these a counter that stands still, a clock that is right or an nvidia-smi that answers would be a fault.
BROKEN = {
    "node_health_drain_percent": 0,
    "node_health_pcie_replays_per_minute": -1,
    "node_health_nvlink_crc_per_second": 0,
    "node_health_link_flaps": 0,
    "node_health_link_flaps_hours": 169,
    "node_health_infiniband_errors": 0,
    "node_health_clock_offset_s": 0,
    "node_health_timeout_s": 0,
    "node_health_repair_limit": 0,
}


def run(folder: Path, **given: object) -> tuple[int, str]:
    """Check options on this machine; what was told, in one line."""
    (folder / "play.yml").write_text(yaml.safe_dump(PLAY))
    known = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, **given}
    kept = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
    environment = kept | {"ANSIBLE_CONFIG": str(collection() / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    program = f"{sys.executable.rpartition('/')[0]}/ansible-playbook"
    command = [program, "-i", "gpu1,", "-e", json.dumps(known), "play.yml"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder, env=environment)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            BROKEN,
            [*(f"gpu1: {name}: " for name in BROKEN), "out of bounds", "set a number above 0 and at most 100"],
        ),
        (
            {"node_health_severities": {"clocks": "MONITOR"}},
            ["gpu1: node_health_severities.clocks: ", "did you mean clock?"],
        ),
        ({"slurm_health_check_interval": 60}, ["Set node_health_interval instead"]),
    ],
)
def test_what_healthy_nodes_would_break_is_refused(tmp_path: Path, given: dict[str, object], said: list[str]) -> None:
    code, text = run(tmp_path, **given)
    assert code
    assert [words for words in said if words not in text] == []


def test_the_defaults_are_taken(tmp_path: Path) -> None:
    code, text = run(tmp_path)
    assert code == 0, text
