"""What all tests of modules need."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.common import package_commands


@pytest.fixture(autouse=True)
def _free_package_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody hold the lock of the package manager, whatever goes on on this machine."""
    monkeypatch.setattr(package_commands, "lock_holder", lambda: None)
    monkeypatch.setattr(package_commands, "first_holder", lambda: None)
