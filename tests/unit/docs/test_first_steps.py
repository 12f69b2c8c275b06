"""The sites of the first-steps test equal those of README and `busbar init` except for the overlay."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import yaml
from busbar.paths import site_files
from first_steps import OVERLAY, PAGES, hosts_of, inventory_of, overlay, write_site

if TYPE_CHECKING:
    from pathlib import Path

SSH = {"key": "/k", "known_hosts": "/h"}


@pytest.mark.parametrize("page", PAGES)
def test_only_the_overlay_differs(page: str, tmp_path: Path) -> None:
    site = tmp_path / "hall"
    write_site(site, page)
    groups = hosts_of(site)
    addresses = {host: f"192.0.2.{number}" for number, host in enumerate(groups["all"], start=1)}
    added = overlay(site, addresses, SSH, "login", "ssh-ed25519 AAAA alice")
    expected = site_files("hall")
    if page:
        expected["inventory/hosts.yml"] = inventory_of(page)
    written = {str(path.relative_to(site)): path for path in site.rglob("*") if path.is_file() and path not in added}
    assert {place: path.read_text() for place, path in written.items()} == expected
    set_there = {name for path in added for name in yaml.safe_load(path.read_text())}
    assert set_there == OVERLAY.keys()


@pytest.mark.parametrize("page", PAGES)
def test_overlay_replaces_only_addresses_and_hardware(page: str, tmp_path: Path) -> None:
    site = tmp_path / "hall"
    write_site(site, page)
    own = set()
    for path in (site / "inventory").rglob("*.yml"):
        lines = [line.partition("#")[0] for line in path.read_text().splitlines()]
        own |= set(re.findall(r"(\w+):", "\n".join(lines)))
    assert own & OVERLAY.keys() <= {"ansible_host", "hardware"}


@pytest.mark.parametrize("page", PAGES)
def test_sites_have_the_hosts_that_the_test_needs(page: str, tmp_path: Path) -> None:
    write_site(tmp_path / "hall", page)
    groups = hosts_of(tmp_path / "hall")
    assert groups["slurm_login"] == ["login"]
    assert groups["slurm_compute"] == groups["dgx_h100"]
    assert len(groups["slurm_compute"]) > 1
    assert yaml.safe_load(yaml.safe_dump(groups)) == groups, "names are plain text"
