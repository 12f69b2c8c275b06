"""Tests of the real Grafana: it accepts the role's configuration, loads all dashboards and queries Prometheus."""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from busbar.sandbox.state import load
from conftest import TOP, as_json, recap, succeeded
from real_packages import real_package

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Cluster

PACKAGE = "/root/busbar-real-grafana.deb"
PASSWORD = "a-long-one-for-Tests"  # noqa: S105 - a test password


@pytest.fixture(scope="session")
def package() -> Path:
    """Return upstream's package; requested before the sandbox, so that a skip is cheap."""
    return real_package("grafana_*.deb")


@pytest.fixture(scope="module")
def grafana(package: Path, sandbox: Cluster) -> dict[str, Any]:
    """Install Grafana on the controller and return the options."""
    target = f"{sandbox.container('ctl')}:{PACKAGE}"
    subprocess.run(["podman", "cp", str(package), target], check=True, capture_output=True)
    version = subprocess.run(["dpkg-deb", "-f", package, "Version"], check=True, capture_output=True, text=True)
    options = {
        "grafana_source": "url",
        "grafana_package_url": PACKAGE,
        "grafana_package_sha256": hashlib.sha256(package.read_bytes()).hexdigest(),
        "grafana_version": version.stdout.strip(),
        "grafana_admin_password": PASSWORD,
    }
    succeeded(sandbox.playbook("monitoring.yml", "-t", "grafana", "-e", json.dumps(options)))
    return options


def ask(sandbox: Cluster, path: str) -> Any:  # noqa: ANN401 - any JSON
    """Return Grafana's response to its administrator."""
    login = base64.b64encode(f"admin:{PASSWORD}".encode()).decode()
    url = f"http://{load(sandbox.name).address('ctl')}:3000{path}"
    program = (
        "import sys, urllib.request as u; "
        "print(u.urlopen(u.Request(sys.argv[1], headers={'Authorization': 'Basic ' + sys.argv[2]})).read().decode())"
    )
    return as_json(sandbox.exec("ctl", shlex.join(["python3", "-c", program, url, login])).stdout)


def test_second_run_changes_nothing(sandbox: Cluster, grafana: dict[str, Any]) -> None:
    done = sandbox.playbook("monitoring.yml", "-t", "grafana", "-e", json.dumps(grafana))
    succeeded(done)
    assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}


def test_all_dashboards_exist_and_prometheus_answers(sandbox: Cluster, grafana: dict[str, Any]) -> None:  # noqa: ARG001
    shipped = {path.stem for path in (TOP / "roles/grafana/files/dashboards").glob("*.json")}
    found = {item["uid"] for item in ask(sandbox, "/api/search?type=dash-db")}
    assert len(found) == len(shipped), found
    (source,) = ask(sandbox, "/api/datasources")
    assert ask(sandbox, f"/api/datasources/uid/{source['uid']}/health")["status"] == "OK"
