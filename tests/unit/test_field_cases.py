"""Problems that users of GPU and Slurm clusters posted in public, and what busbar must print for them.

A case in tests/fixtures/cases/index.json has a command and regular expressions that its output must and must not match.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.hardware.nvidia_smi import parse_query
from ansible_collections.busbar.cluster.plugins.module_utils.health.host_diagnosis import drain_problems
from ansible_collections.busbar.cluster.plugins.module_utils.health.kernel_log import kernel_findings
from ansible_collections.busbar.cluster.plugins.module_utils.health.system_checks import service_answer
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.scontrol_nodes import read_text_nodes
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.merged_profiles import site_catalogue
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.profile_from_machine import (
    describe_machine,
    description_text,
    machine_notes,
)

if TYPE_CHECKING:
    from collections.abc import Callable

TOP = Path(__file__).parents[2]
FOLDER = TOP / "tests" / "fixtures" / "cases"
CASES: dict[str, dict[str, Any]] = {case["name"]: case for case in json.loads((FOLDER / "index.json").read_text())}
BUSBAR = Path(sys.executable).with_name("busbar")


def described(text: str) -> str:
    """Return the output of `busbar inventory describe` for a machine with these GPUs."""
    smi = parse_query(text)
    port = {"name": "rocep1s0f1", "active": True, "rate_gbps": 200.0, "link_layer": "Ethernet", "state": "ACTIVE"}
    facts = {**smi, "source": "smi", "smi_state": "ok", "network_interfaces": [], "pci_gpus": [], "rdma_ports": [port]}
    node = {"sockets": 1, "cores_per_socket": 20, "threads_per_core": 1, "cpus": 20, "memory_mb": 124600}
    machine = ("spark1", describe_machine(node, facts), machine_notes(facts, ""))
    return description_text([machine], site_catalogue({}))


def not_in_the_docs(text: str) -> str:
    page = (TOP / "docs" / "troubleshooting.md").read_text()
    missing = [line for line in text.splitlines() if line not in page]
    return f"{len(missing)} missing: {missing}"


CALLS: dict[str, Callable[[str], str]] = {
    "xid": lambda text: "\n".join(map(str, kernel_findings(text.splitlines()))),
    "drain": lambda text: "\n".join(map(str, drain_problems(read_text_nodes(text)))),
    "services": lambda text: "\n".join(map(str, service_answer(text).findings)),
    "describe": described,
    "found_in_docs": not_in_the_docs,
}


def said(command: str) -> tuple[int, str]:
    """Return exit code and output of a command of the index."""
    word, *rest = command.split()
    if word == "read":
        return 0, (TOP / rest[0]).read_text()
    if word == "call":
        return 0, CALLS[rest[0]]((FOLDER / rest[1]).read_text())
    done = subprocess.run([BUSBAR, *rest], cwd=FOLDER, capture_output=True, text=True, check=False, timeout=300)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    case = CASES[name]
    code, text = said(case["command"])
    assert [pattern for pattern in case["must"] if not re.search(pattern, text, re.MULTILINE)] == [], text
    assert [pattern for pattern in case["must_not"] if re.search(pattern, text, re.MULTILINE)] == [], text
    assert code == case.get("exit", code), text


def test_each_input_belongs_to_a_case() -> None:
    words = {word for case in CASES.values() for word in case["command"].split()}
    assert {path.name for path in FOLDER.iterdir()} - {"index.json"} <= words
