"""The recording that a sandbox node replays is read like any other and agrees with the sandbox's profile."""

from __future__ import annotations

import yaml
from ansible_collections.busbar.cluster.plugins.module_utils.hardware.gpu_claims import claim_problems
from ansible_collections.busbar.cluster.plugins.module_utils.hardware.gpu_sources import join_sources
from busbar.paths import collection
from busbar.sandbox.recording import gpu_recording


def test_the_recording_agrees_with_the_profile() -> None:
    catalogue = yaml.safe_load((collection() / "group_vars/all/hardware.yml").read_text())["hardware_profiles"]
    found = join_sources({"state": "ok", "query": gpu_recording("gpu1", 2)}, {}, [])
    assert found["errors"] == []
    assert [gpu["serial"] for gpu in found["gpus"]] == ["simulated-gpu1-0", "simulated-gpu1-1"]
    found |= {"rdma_ports": [], "network_interfaces": [], "pci_nics": []}
    assert claim_problems("gpu1", catalogue["sandbox_gpu"], found, {"gpu_tolerance": 0.05}) == []
