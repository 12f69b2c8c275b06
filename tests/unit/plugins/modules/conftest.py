"""What all tests of modules need."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.common import host_record, package_commands

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _free_package_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody hold the lock of the package manager, whatever goes on on this machine."""
    monkeypatch.setattr(package_commands, "lock_holder", lambda: None)
    monkeypatch.setattr(package_commands, "first_holder", lambda: None)


@pytest.fixture(autouse=True)
def record_folder(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keep the record of changes beside the test, begun already, and ask no package manager of this machine."""
    folder = tmp_path_factory.mktemp("record")
    (folder / "baseline.json").write_text(json.dumps({"older": [], "packages": {}, "paths": []}))
    monkeypatch.setattr(host_record, "RECORD", folder)
    monkeypatch.setattr(host_record, "installed_packages", lambda _module: {})
    return folder
