"""Fixtures for all module tests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.common import baseline, package_commands

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _free_package_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ignore the locks of this machine's package manager."""
    monkeypatch.setattr(package_commands, "lock_holder", lambda: None)
    monkeypatch.setattr(package_commands, "first_holder", lambda: None)


@pytest.fixture(autouse=True)
def baseline_folder(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Use a temporary baseline directory with an existing baseline, and return it."""
    folder = tmp_path_factory.mktemp("busbar") / "baseline"
    (folder / "files").mkdir(parents=True)
    (folder / "host.json").write_text(json.dumps({"older": [], "packages": {}, "paths": []}))
    monkeypatch.setattr(baseline, "BASELINE", folder)
    return folder
