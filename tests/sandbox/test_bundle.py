"""Tests of a site without internet access: its hosts reach only the provisioning host, which serves a bundle."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from functools import partial
from typing import TYPE_CHECKING

import pytest
import yaml
from busbar.sandbox.state import load
from conftest import QUICK, Cluster, recap

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.proves("hosts", "site")]

PORT = 8021


def archives(folder: Path) -> list[str]:
    """Return the archives for the bundle's system as apt names sites: without a scheme."""
    description = json.loads((folder / "bundle.json").read_text(encoding="utf-8"))
    return sorted({each["url"].partition("://")[2] for each in description["archives"]["debian13"]})


def reaches(cluster: Cluster, node: str, address: str, port: int) -> bool:
    command = f"timeout 5 bash -c '</dev/tcp/{address}/{port}'"
    return cluster.exec(node, command, check=False).returncode == 0


def cut_off(cluster: Cluster, node: str, subnet: str) -> None:
    """Restrict a node to its own network, in which the provisioning host has the first address."""
    shown = subprocess.run(
        ["podman", "inspect", "--format", "{{.State.Pid}}", cluster.container(node)],
        check=True,
        capture_output=True,
        text=True,
    )
    rule = ["iptables", "-A", "OUTPUT", "!", "-o", "lo", "!", "-d", f"{subnet}.0/24", "-j", "REJECT"]
    subprocess.run(["nsenter", "-t", shown.stdout.strip(), "-n", *rule], check=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("site") / "bundle"


@pytest.fixture(scope="module")
def isolated(sandbox_name: str, folder: Path) -> Iterator[Cluster]:
    """Return a bare sandbox without internet access that reaches its bundle."""
    cluster = Cluster(f"{sandbox_name}-airgap")
    made = cluster.busbar("sandbox", "up", "--name", cluster.name)
    assert made.returncode == 0, made.stderr
    created = cluster.busbar("bundle", "create", "--name", cluster.name, str(folder), timeout=1500)
    assert created.returncode == 0, created.stderr
    size = created.stderr.index("to download: ")
    assert size < created.stderr.index("downloaded ")
    sandbox = load(cluster.name)
    archive = socket.gethostbyname(archives(folder)[0].partition("/")[0])
    listen = f"{sandbox.subnet}.1:{PORT}"
    site = cluster.inventory / "group_vars/all/bundle.yml"
    site.write_text(yaml.safe_dump({"site_bundle": f"http://{listen}"}))
    with subprocess.Popen(["busbar", "bundle", "serve", str(folder), "--listen", listen]) as server:
        try:
            for node in sandbox.nodes:
                answers = partial(reaches, cluster, node, f"{sandbox.subnet}.1", PORT)
                cluster.wait_until(answers, f"{node}: no bundle")
                assert reaches(cluster, node, archive, 80)
                cut_off(cluster, node, sandbox.subnet)
                assert not reaches(cluster, node, archive, 80)
            yield cluster
        finally:
            server.terminate()
    gone = cluster.busbar("sandbox", "down", "--name", cluster.name)
    assert gone.returncode == 0, gone.stderr


def test_site_is_provisioned_and_validated_from_the_bundle(isolated: Cluster, folder: Path) -> None:
    done = isolated.busbar("provision", "--name", isolated.name, *QUICK, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    report = max((isolated.state / "reports").glob("*/report.json"))
    assert json.loads(report.read_text())["verdict"] == "PASS"
    sources = isolated.exec("gpu1", "apt-get indextargets --format '$(SITE)' | sort -u").stdout.split()
    base = f"http://{load(isolated.name).subnet}.1:{PORT}/files"
    assert sources == [f"{base}/{site}" for site in archives(folder)]


def test_second_run_changes_nothing(isolated: Cluster) -> None:
    done = isolated.playbook("base.yml")
    assert done.returncode == 0, done.stdout[-2000:]
    assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}


def test_complete_bundle_is_verified_and_missing_package_is_reported(isolated: Cluster, folder: Path) -> None:
    command = ["bundle", "verify", "--name", isolated.name, str(folder)]
    good = isolated.busbar(*command)
    assert (good.returncode, f"bundle of {isolated.name}" in good.stdout) == (0, True), good.stderr
    package = next(folder.glob("files/**/munge_*.deb"))
    kept = package.read_bytes()
    package.unlink()
    bad = isolated.busbar(*command)
    assert (bad.returncode, f"{package.name}: is missing" in bad.stderr) == (2, True), bad.stderr
    # An update downloads only missing files.
    again = isolated.busbar("bundle", "create", "--name", isolated.name, str(folder), timeout=900)
    assert (again.returncode, "downloaded 1 of 1 files" in again.stderr) == (0, True), again.stderr
    assert package.read_bytes() == kept


def test_bundle_of_another_inventory_is_refused_before_any_change(isolated: Cluster) -> None:
    done = isolated.playbook("base.yml", "--tags", "hosts_install", "-e", "cluster_name=other")
    assert done.returncode != 0
    assert "was created for another inventory (expected the host ctl of the cluster other)" in done.stdout
    assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}


def test_hosts_use_their_own_sources_again_without_the_option(isolated: Cluster, folder: Path) -> None:
    done = isolated.playbook("base.yml", "--tags", "hosts_configure", "-e", "site_bundle=")
    assert done.returncode == 0, done.stdout[-2000:]
    listed = isolated.exec("gpu1", "ls /etc/apt/*.d; cat /etc/apt/sources.list").stdout
    assert "busbar" not in listed
    assert sorted(set(re.findall(r"^deb http://(\S+)", listed, re.MULTILINE))) == archives(folder)
