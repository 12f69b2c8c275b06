"""Fixtures: the sites that busbar drafts from the example directories of DeepOps."""

from __future__ import annotations

import json
from typing import Any

import pytest
from adopted_sites import FIXTURES, HARDWARE, Site
from busbar.adopt.cluster_source import HostReading
from busbar.adopt.deepops import adopt_deepops


@pytest.fixture(autouse=True)
def no_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevent contact to the hosts of an inventory."""
    error = "ssh failed: no test contacts hosts"
    monkeypatch.setattr(
        "busbar.adopt.steps.read_hosts", lambda places, _: dict.fromkeys(places, HostReading(error=error))
    )


@pytest.fixture(scope="session")
def cases() -> dict[str, dict[str, Any]]:
    """Return the expectations of the example directories by name."""
    found = json.loads((FIXTURES / "deepops.json").read_text())
    return {case["path"].split("/")[1]: case for case in found}


@pytest.fixture(scope="session")
def sites(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Site]:
    """Return the sites of the example directories by name."""
    out = tmp_path_factory.mktemp("adopt")
    return {
        name: Site(adopt_deepops(FIXTURES / "deepops" / name, "23.08", hardware), out / name)
        for name, hardware in HARDWARE.items()
    }
