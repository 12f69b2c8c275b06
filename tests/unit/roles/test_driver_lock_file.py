"""The driver version is selected once for the cluster and written to a lock file beside the inventory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from executables import executable
from plays import play_of, played

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

SHOW = {"msg": "{{ inventory_hostname }} gets <{{ __nvidia_driver_lock.versions['580'] }}>"}
PLAY = play_of("nvidia_driver", "lock", {"name": "Go on", "ansible.builtin.debug": SHOW})
HOSTS = {"vars": {"hardware": "l40s"}, "children": {"slurm_compute": {"hosts": {"gpu1": None, "gpu2": None}}}}


class Site:
    """A folder with an inventory of two nodes that can install the same driver versions."""

    def __init__(self, folder: Path) -> None:
        """Put a stand-in for apt-cache in place."""
        self.folder, self.lock = folder, folder / "nvidia_driver.lock.yml"
        # A stand-in: the repositories of this machine do not matter here, and apt needs a second to read them.
        executable(folder / "apt-cache", "#!/bin/sh\n")

    def run(self, *options: str, versions: list[str], **given: Any) -> tuple[int, str]:  # noqa: ANN401 - as given
        """Run the tasks; return the exit code and the output in one line."""
        offer = {"key": "580", "known": True, "versions": versions, "installed": ""}
        system = {"distribution": "Debian", "major": "12", "container": True}
        declared = {"__nvidia_driver_plan": {"offer": offer, "locked": ""}, "__nvidia_driver_system": system, **given}
        path = f"{self.folder}:{os.environ['PATH']}"
        return played(self.folder, PLAY, HOSTS, *options, given=declared, PATH=path)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_first_run_writes_the_lock_file_and_later_runs_use_it(site: Site) -> None:
    code, told = site.run("--check", versions=["580.65.06"])
    assert (code, site.lock.exists()) == (0, False), told
    code, told = site.run(versions=["580.65.06", "580.95.05"])
    assert code == 0, told
    assert "gpu1 gets <580.95.05>" in told
    assert "gpu2 gets <580.95.05>" in told
    assert yaml.safe_load(site.lock.read_text()) == {"580": "580.95.05"}
    # The repository has a newer version, and a node is added later and alone.
    code, told = site.run("--limit", "gpu2", versions=["580.95.05", "580.105.08"])
    assert (code, "gpu2 gets <580.95.05>" in told, "changed=0" in told) == (0, True, True), told
    code, told = site.run("-e", "nvidia_driver_upgrade=true", versions=["580.95.05", "580.105.08"])
    assert (code, "gpu1 gets <580.105.08>" in told) == (0, True), told
    assert yaml.safe_load(site.lock.read_text()) == {"580": "580.105.08"}


def test_invalid_lock_file_is_reported_and_nothing_is_done(site: Site) -> None:
    site.lock.write_text('"580": newest\n')
    code, told = site.run(versions=["580.95.05"])
    assert code == 2, told
    assert f"{site.lock}: 580: not a valid version: write" in told
    assert site.lock.read_text() == '"580": newest\n'


def test_without_a_lock_file_a_new_node_queries_another_node(site: Site) -> None:
    """The other node has no driver here, so the newest version is selected."""
    code, told = site.run("--limit", "gpu1", versions=["580.65.06", "580.95.05"])
    assert "lock | Read the driver on a node that is not part of this run" in told
    assert "[gpu1 -> gpu2]" in told
    assert (code, yaml.safe_load(site.lock.read_text())) == (0, {"580": "580.95.05"}), told
