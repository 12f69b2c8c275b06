"""The version of the driver is chosen once for the cluster and written beside its inventory."""

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
    """A folder with an inventory of two nodes, of which each can have the same."""

    def __init__(self, folder: Path) -> None:
        """Put a stand-in for apt-cache in place."""
        self.folder, self.lock = folder, folder / "nvidia_driver.lock.yml"
        # What the repositories of this machine hold is of no interest here, and takes apt a second to find out.
        executable(folder / "apt-cache", "#!/bin/sh\n")

    def run(self, *options: str, versions: list[str], **given: Any) -> tuple[int, str]:  # noqa: ANN401 - as given
        """Run the tasks; return the exit code and what was told, in one line."""
        offer = {"key": "580", "known": True, "versions": versions, "installed": ""}
        system = {"distribution": "Debian", "major": "12", "container": True}
        declared = {"__nvidia_driver_plan": {"offer": offer, "locked": ""}, "__nvidia_driver_system": system, **given}
        path = f"{self.folder}:{os.environ['PATH']}"
        return played(self.folder, PLAY, HOSTS, *options, given=declared, PATH=path)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_the_first_run_writes_it_and_later_ones_take_it(site: Site) -> None:
    code, told = site.run("--check", versions=["580.65.06"])
    assert (code, site.lock.exists()) == (0, False), told
    code, told = site.run(versions=["580.65.06", "580.95.05"])
    assert code == 0, told
    assert "gpu1 gets <580.95.05>" in told
    assert "gpu2 gets <580.95.05>" in told
    assert yaml.safe_load(site.lock.read_text()) == {"580": "580.95.05"}
    # A newer version in the repository, and a node that comes later and alone.
    code, told = site.run("--limit", "gpu2", versions=["580.95.05", "580.105.08"])
    assert (code, "gpu2 gets <580.95.05>" in told, "changed=0" in told) == (0, True, True), told
    code, told = site.run("-e", "nvidia_driver_upgrade=true", versions=["580.95.05", "580.105.08"])
    assert (code, "gpu1 gets <580.105.08>" in told) == (0, True), told
    assert yaml.safe_load(site.lock.read_text()) == {"580": "580.105.08"}


def test_a_broken_file_is_named_and_nothing_is_done(site: Site) -> None:
    site.lock.write_text('"580": newest\n')
    code, told = site.run(versions=["580.95.05"])
    assert code == 2, told
    assert f"{site.lock}: 580: not a valid version: write" in told
    assert site.lock.read_text() == '"580": newest\n'


def test_a_node_that_comes_before_there_is_a_lock_asks_one_of_the_others(site: Site) -> None:
    """It answers here that it has no driver, which leaves the choice to the newest version."""
    code, told = site.run("--limit", "gpu1", versions=["580.65.06", "580.95.05"])
    assert "lock | Read the driver on a node that is not part of this run" in told
    assert "[gpu1 -> gpu2]" in told
    assert (code, yaml.safe_load(site.lock.read_text())) == (0, {"580": "580.95.05"}), told
