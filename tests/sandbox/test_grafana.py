"""Tests of the role grafana with a test package: refusal, installation, access, restart, idempotence."""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from busbar.sandbox.state import load
from conftest import TOP, plain_environment, recap
from dashboard_files import FOLDER
from grafana_package import package
from package_repository import Repository, served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Cluster

pytestmark = pytest.mark.proves("grafana")

PLAY = """\
- hosts: ctl
  become: true
  gather_facts: false
  roles:
    - role: busbar.cluster.grafana
"""
PORT = 3000
PASSWORD = "first-Of-Two-long-ones"  # noqa: S105 - a test password
OTHER = "second-Of-Two-long-ones"
ASK = """
import http.client, sys
address, port, path, login = sys.argv[1:]
connection = http.client.HTTPConnection(address, int(port), timeout=5)
try:
    connection.request("GET", path, headers={"Authorization": "Basic " + login} if login else {})
    print(connection.getresponse().status)
except OSError:
    print(0)
"""
OURS = "/etc/grafana /var/lib/grafana /etc/systemd/system/grafana-server.service.d /srv/busbar-test-grafana"


class Site:
    """The sandbox with a play that contains only Grafana."""

    def __init__(self, cluster: Cluster, play: Path, options: dict[str, Any]) -> None:
        """Store the options of the role."""
        self.cluster, self.play, self.options = cluster, play, options
        self.address = load(cluster.name).address("ctl")

    def run(self, *arguments: str, **change: object) -> subprocess.CompletedProcess[str]:
        """Run the play."""
        file = self.play.with_name("options.json")  # not on the command line, which every user can read
        file.write_text(json.dumps(self.options | change), encoding="utf-8")
        command = ["ansible-playbook", "-i", str(self.cluster.inventory), str(self.play), "-e", f"@{file}", *arguments]
        return subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=600, cwd=TOP, env=plain_environment()
        )

    def status(self, path: str, password: str = "") -> int:
        """Return Grafana's status code, as administrator if a password is given; 0 without a response."""
        login = base64.b64encode(f"admin:{password}".encode()).decode()
        given = ["python3", "-c", ASK, self.address, str(PORT), path, login if password else ""]
        return int(self.cluster.exec("ctl", shlex.join(given)).stdout)


@pytest.fixture(scope="module")
def site(sandbox: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return the sandbox without Grafana; Grafana is removed again at the end."""
    folder = tmp_path_factory.mktemp("grafana")
    repository = Repository(folder / "repository")
    first = package("12.0.0")
    repository.add(first, package("12.0.1")).publish()
    play = folder / "grafana.yml"
    play.write_text(PLAY, encoding="utf-8")
    with served(sandbox, repository) as address:
        options = {
            "grafana_source": "url",
            "grafana_version": "12.0.0",
            "grafana_package_url": f"{address}{first.file_name}",
            "grafana_package_sha256": hashlib.sha256((repository.folder / first.file_name).read_bytes()).hexdigest(),
            "grafana_repository_url": address,
            "grafana_repository_suite": "./",
            "grafana_repository_components": [],
            "grafana_repository_key_url": f"{address}key.asc",
            "grafana_repository_fingerprint": repository.fingerprint,
            "grafana_admin_password": PASSWORD,
        }
        yield Site(sandbox, play, options)
    sandbox.exec("ctl", "apt-mark unhold grafana; dpkg --purge grafana; userdel grafana", check=False)
    sandbox.exec(
        "ctl", f"rm -rf {OURS} /etc/apt/sources.list.d/*grafana* /etc/apt/preferences.d/*grafana*", check=False
    )
    sandbox.exec("ctl", "rm -f /etc/apt/keyrings/*grafana*; systemctl daemon-reload", check=False)


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode != 0
    assert recap(done.stdout)["ctl"]["changed"] == 0
    assert "remedy:" in done.stdout
    return done.stdout.replace("\\n", "\n")


def test_all_invalid_options_are_refused_in_one_run_before_any_change(site: Site) -> None:
    said = refusal(site.run(grafana_package_sha256="", grafana_admin_password="CHANGEME", grafana_address="0.0.0.0"))  # noqa: S104, S106
    for key in ("package_sha256", "admin_password", "address"):
        assert f"ctl: grafana_{key}: " in said
    assert site.cluster.exec("ctl", "ls -d /etc/grafana /usr/sbin/grafana-server", check=False).stdout == ""


def test_port_in_use_is_reported_with_its_process(site: Site) -> None:
    unit = "busbar-test-grafana-port"
    serve = f"python3 -m http.server --bind {site.address} {PORT}"
    site.cluster.exec("ctl", f"systemd-run -q --collect --unit={unit} {serve}")
    try:
        site.cluster.wait_until(lambda: site.status("/") > 0, "the port is not taken")
        said = refusal(site.run())
    finally:
        site.cluster.exec("ctl", f"systemctl stop {unit}")
    assert "grafana_port" in said
    assert f"{PORT}" in said
    assert "python3" in said


def test_check_mode_on_a_bare_host_shows_changes_and_makes_none(site: Site) -> None:
    done = site.run("--check", "--diff")
    assert done.returncode == 0, done.stdout
    assert recap(done.stdout)["ctl"]["changed"] > 0
    assert "allowUiUpdates: false" in done.stdout
    assert PASSWORD not in done.stdout
    assert site.cluster.exec("ctl", "ls -d /etc/grafana /usr/sbin/grafana-server", check=False).stdout == ""


@pytest.mark.scenario
def test_grafana_is_installed_listens_on_one_address_and_keeps_its_password(site: Site) -> None:
    done = site.run("--diff")
    assert done.returncode == 0, done.stdout
    assert PASSWORD not in done.stdout
    assert site.status("/api/health") == 200
    assert site.status("/api/user", PASSWORD) == 200
    assert site.status("/api/user", OTHER) == 401
    listening = site.cluster.exec("ctl", f"ss -Hltn sport = :{PORT}").stdout.split("\n")
    assert [line.split()[3] for line in listening if line] == [f"{site.address}:{PORT}"]
    assert site.cluster.exec("ctl", "systemctl is-enabled grafana-server").stdout.strip() == "enabled"
    holding = "find /etc/grafana -type f -perm /o+r | xargs grep -l"
    assert site.cluster.exec("ctl", f"{holding} {shlex.quote(PASSWORD)}", check=False).stdout == ""
    assert site.cluster.exec("ctl", f"journalctl --since -5min | grep -c {PASSWORD}", check=False).stdout.strip() == "0"
    modes = site.cluster.exec("ctl", "stat -c '%a %U:%G' /etc/grafana/grafana.ini /etc/grafana/busbar_*").stdout
    assert set(modes.splitlines()) == {"640 root:grafana"}
    there = site.cluster.exec("ctl", "ls /etc/grafana/dashboards").stdout.split()
    assert there == sorted(path.name for path in FOLDER.iterdir())
    board = json.loads(site.cluster.exec("ctl", "cat /etc/grafana/dashboards/node.json").stdout)
    assert board == json.loads((FOLDER / "node.json").read_text(encoding="utf-8"))


def test_second_run_changes_nothing(site: Site) -> None:
    done = site.run()
    assert recap(done.stdout)["ctl"] == recap(done.stdout)["ctl"] | {"changed": 0, "failed": 0}, done.stdout


def test_new_password_is_set_in_the_existing_database(site: Site) -> None:
    done = site.run("--diff", grafana_admin_password=OTHER)
    assert done.returncode == 0, done.stdout
    assert OTHER not in done.stdout
    assert (site.status("/api/user", OTHER), site.status("/api/user", PASSWORD)) == (200, 401)
    assert recap(site.run(grafana_admin_password=OTHER).stdout)["ctl"]["changed"] == 0


def test_failed_start_is_reported_with_its_message_and_retried(site: Site) -> None:
    site.options["grafana_admin_password"] = OTHER
    done = site.run(grafana_settings={"server": {"broken": 1}}, __grafana_timeout_s=20)
    assert done.returncode != 0
    assert "the option broken is not known" in done.stdout, done.stdout
    done = site.run()
    assert done.returncode == 0, done.stdout
    assert recap(done.stdout)["ctl"]["changed"] > 0
    assert site.status("/api/health") == 200


def test_repository_installs_the_declared_version(site: Site) -> None:
    change = {"grafana_source": "repository", "grafana_version": "12.0.1"}
    done = site.run(**change)
    assert done.returncode == 0, done.stdout
    found = site.cluster.exec("ctl", "dpkg-query -W -f '${Version}' grafana; apt-mark showhold").stdout.split()
    assert found[0] == "12.0.1grafana" or found == ["12.0.1", "grafana"]
    assert recap(site.run(**change).stdout)["ctl"]["changed"] == 0
    assert site.status("/api/user", OTHER) == 200


def test_files_for_an_external_grafana_are_exported_and_nothing_is_installed(site: Site) -> None:
    place = "/srv/busbar-test-grafana"
    done = site.run(grafana_source="none", grafana_export_dir=place)
    assert done.returncode == 0, done.stdout
    found = site.cluster.exec("ctl", f"cd {place} && find . -type f").stdout.split()
    boards = [f"./dashboards/{path.name}" for path in FOLDER.iterdir()]
    assert sorted(found) == sorted(
        [*boards, "./provisioning/dashboards/busbar.yml", "./provisioning/datasources/busbar.yml"]
    )
    assert recap(site.run(grafana_source="none", grafana_export_dir=place).stdout)["ctl"]["changed"] == 0
