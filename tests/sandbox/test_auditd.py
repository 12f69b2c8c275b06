"""The kernel's audit belongs to the machine: in a container it is refused before anything changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from conftest import recap

if TYPE_CHECKING:
    from conftest import Cluster

pytestmark = pytest.mark.proves("auditd")


@pytest.mark.core
def test_a_container_is_refused(sandbox: Cluster) -> None:
    done = sandbox.playbook("auditd.yml", "--limit", "login", "-e", "auditd_enabled=true")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "login: auditd_enabled: this host is a container (podman)" in " ".join(done.stdout.split())
    assert recap(done.stdout)["login"]["changed"] == 0


def test_without_it_nothing_is_done(sandbox: Cluster) -> None:
    done = sandbox.playbook("auditd.yml", "--limit", "login")
    assert done.returncode == 0, done.stdout + done.stderr
    assert recap(done.stdout)["login"]["changed"] == 0
