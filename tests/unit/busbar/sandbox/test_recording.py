"""The recording that a sandbox node replays is read like any other and agrees with the sandbox's profile."""

from __future__ import annotations

from ansible_collections.busbar.cluster.plugins.module_utils.hardware.gpu_claims import claim_problems
from ansible_collections.busbar.cluster.plugins.module_utils.hardware.gpu_sources import join_sources
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.profiles import site_catalogue
from busbar.sandbox.recording import gpu_recording


def test_the_recording_agrees_with_the_profile() -> None:
    catalogue = site_catalogue({})
    found = join_sources({"state": "ok", "query": gpu_recording("gpu1", 2)}, {}, [])
    assert found["errors"] == []
    assert [gpu["serial"] for gpu in found["gpus"]] == ["simulated-gpu1-0", "simulated-gpu1-1"]
    found |= {"rdma_ports": [], "network_interfaces": [], "pci_nics": []}
    assert claim_problems("gpu1", catalogue["sandbox_gpu"], found, {"gpu_tolerance": 0.05}) == []
