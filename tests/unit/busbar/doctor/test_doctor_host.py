"""Tests of the findings of `busbar doctor` on the provisioning host, and of their output."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from pathlib import Path

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.common.problems import advice, make_problem
from busbar.commands.doctor import cluster_findings
from busbar.doctor import inventory
from busbar.doctor.finding import ERROR, WARNING, Finding, as_json, as_text, findings_of, here
from busbar.doctor.host import host_findings, site_findings
from busbar.run.display import Display
from busbar.run.events import Run
from busbar.run.playbook import Playbook, host_variables
from report_samples import small


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a site without faults that was never validated."""
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory" / "hosts.yml").write_text("all: {}\n")
    (tmp_path / "secrets").mkdir(mode=0o700)
    (tmp_path / "secrets" / "munge.key").write_text("x" * 200)
    (tmp_path / "secrets" / "munge.key").chmod(0o600)
    return tmp_path


def found(site: Path) -> list[Finding]:
    """Return the findings except the missing validation."""
    sources = [str(site / "inventory")]
    return [each for each in site_findings(site, sources, [site / "secrets"]) if each.key != "validation"]


def test_healthy_site_has_no_findings(site: Path) -> None:
    assert found(site) == []


def test_secrets_accessible_to_others_are_reported(site: Path) -> None:
    (site / "secrets").chmod(0o750)
    (site / "secrets" / "munge.key").chmod(0o644)
    first, second = found(site)
    assert (first.severity, first.problem) == (ERROR, "is accessible to other users (mode 0750)")
    assert first.remedy == f"chmod 700 {site / 'secrets'}"
    assert second.remedy == f"chmod 600 {site / 'secrets' / 'munge.key'}"


def test_invalid_authority_is_reported(site: Path) -> None:
    (site / "secrets" / "ssh_ca").write_text("nonsense\n")
    (site / "secrets" / "ssh_ca").chmod(0o600)
    (broken,) = found(site)
    assert broken.key == "ssh_ca"


def test_files_of_another_user_are_findings(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = Path.is_file

    # Root may search every folder.
    def refused(path: Path) -> bool:
        if path.parent.name in {"secrets", "ssh"}:
            raise PermissionError(13, "Permission denied", str(path))
        return search(path)

    monkeypatch.setattr(Path, "is_file", refused)
    monkeypatch.setattr(os, "access", lambda path, _mode: Path(path).name != "secrets")
    assert [(each.key, each.problem) for each in found(site)] == [(str(site / "secrets"), "cannot be read")]
    key = str(site / "ssh" / "id_ed25519")
    problems = [each.problem for each in host_findings(site, sandbox=False, private_keys=[key])]
    assert f"the key {key} cannot be read by this user" in problems


def test_killed_run_is_reported(site: Path) -> None:
    lock = site / "inventory.lock"
    left = {"host": socket.gethostname(), "user": "me", "pid": 1, "since": time.time() - 7200, "command": "busbar site"}
    lock.write_text(json.dumps(left))
    (killed,) = found(site)
    assert (killed.severity, killed.key) == (WARNING, "interrupted run")
    assert killed.remedy == "run it again: busbar site"
    assert json.loads(lock.read_text()) == left
    lock.write_text("")
    assert found(site) == []


def test_killed_detached_validation_is_reported_until_the_next_report(site: Path) -> None:
    def said() -> list[str]:
        problems = site_findings(site, [str(site / "inventory")], [site / "secrets"])
        return [each.problem for each in problems if "was killed" in each.problem]

    run = site / "logs" / "detached" / "20261127T224640"
    run.mkdir(parents=True)
    (run / "lock").touch()
    (run / "started").write_text("1\n")
    assert said() == ["20261127T224640 was killed"]
    report = site / "reports" / "20261127T220000Z" / "report.json"
    report.parent.mkdir(parents=True)
    report.write_text(json.dumps(small()))
    os.utime(report, (time.time() - 3600, time.time() - 3600))
    assert said() == ["20261127T224640 was killed"]
    os.utime(report, (time.time() + 60, time.time() + 60))
    assert said() == []


def test_missing_unreadable_or_failed_validation_is_reported(site: Path) -> None:
    def said() -> list[str]:
        return [
            each.problem
            for each in site_findings(site, [str(site / "inventory")], [site / "secrets"])
            if each.key == "validation"
        ]

    assert said() == ["the cluster has not been validated"]
    (site / "reports" / "20270101T000000Z").mkdir(parents=True)
    (site / "reports" / "20270101T000000Z" / "report.json").write_text("{")
    (only,) = said()
    assert only.startswith("the report 20270101T000000Z cannot be read: ")
    report = {"schema": 1, "verdict": "FAIL", "reason": "gpu2: slow with gpu1 and with gpu3", "tests": []}
    (site / "reports" / "20270101T000000Z" / "report.json").write_text(json.dumps(report))
    assert said() == ["the last validation (20270101T000000Z) ended with FAIL: gpu2: slow with gpu1 and with gpu3"]


def test_missing_programs_and_keys_are_reported(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(site))
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "podman" else f"/usr/bin/{name}")
    assert [each.key for each in host_findings(site, sandbox=True)] == ["podman"]
    (named,) = host_findings(site, sandbox=False, private_keys=[str(site / "gone")])
    assert (named.key, named.problem) == ("ansible_ssh_private_key_file", f"the key {site / 'gone'} does not exist")
    (site / ".ssh").mkdir()
    (site / ".ssh" / "id_ed25519").touch()
    assert list(host_findings(site, sandbox=False)) == []
    monkeypatch.setattr(os, "environ", {**os.environ, "SSH_AUTH_SOCK": str(site / "none")})
    (site / ".ssh" / "id_ed25519").unlink()
    assert [each.key for each in host_findings(site, sandbox=False)] == ["ssh key"]


def test_unresolvable_names_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(name: str, _port: int) -> list[object]:
        if name.startswith("10."):
            return []
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    hosts = {
        "gpu1": {"ansible_host": "10.0.0.1"},
        "gpu2": {},
        "gpu3": {"ansible_host": "{{ somewhere }}"},
        "gpu4": {"ansible_connection": "local"},
        "gpu5": {"ansible_ssh_common_args": "-J bastion"},
    }
    (only,) = inventory.unresolved(hosts)
    assert (only.hosts, only.problem) == (("gpu2",), "gpu2 cannot be resolved")
    keys = {"a": {"ansible_ssh_private_key_file": "~/k"}, "b": {"ansible_private_key_file": "{{ x }}"}}
    assert inventory.key_files(keys) == ["~/k"]


def test_findings_are_printed_as_text_and_as_data() -> None:
    problems = [make_problem([name], "services", "slurmd does not run", "start it") for name in ("gpu2", "gpu1")]
    findings = [here(WARNING, "disk /", "full\x1b[2J", "make room"), *findings_of(ERROR, problems)]
    assert as_text(findings).splitlines()[:3] == [
        "ERROR gpu[1-2]: services: slurmd does not run",
        "    → start it",
        "WARNING provisioning host: disk /: full\ufffd[2J",
    ]
    first = json.loads(as_json(findings))["findings"][0]
    assert first == {
        "severity": "ERROR",
        "hosts": ["gpu1", "gpu2"],
        "key": "services",
        "problem": "slurmd does not run",
        "remedy": "start it",
    }


def test_findings_of_the_playbook(capsys: pytest.CaptureFixture[str]) -> None:
    import sys  # noqa: PLC0415 - the captured stream of this test

    run = Run(Display(sys.stderr), lambda _pattern: 1)
    firing = {"labels": {"alertname": "NodeDown", "severity": "critical"}, "annotations": {}, "state": "firing"}
    problem = {"hosts": [], "key": "slurm", "problem": "a reservation", "remedy": "delete it"}
    run.custom = {
        "busbar_doctor_reservations": [problem],
        "busbar_doctor_alerts": {"mon": {"data": {"alerts": [firing]}}, "mon2": {}},
    }
    said = [(each.severity, each.hosts, each.problem) for each in cluster_findings(run, busy=False)]
    assert said == [
        (WARNING, (), "a reservation"),
        (WARNING, ("mon",), "NodeDown is firing"),
        (ERROR, ("mon2",), "Prometheus does not return its alerts"),
    ]
    assert [each.problem for each in cluster_findings(run, busy=True)] == [problem for _, _, problem in said[1:]]
    assert capsys.readouterr().out == ""


def test_advice_on_the_inventory_is_a_warning() -> None:
    import sys  # noqa: PLC0415 - the captured stream of this test

    run = Run(Display(sys.stderr), lambda _pattern: 1)
    wrong = make_problem([], "group monitorng", "is not a group of busbar", "rename it")
    run.custom = {"busbar_doctor_inventory": [advice(make_problem([], "lmod_openmpi", "has no effect", "x")), wrong]}
    said = [(each.severity, each.key) for each in cluster_findings(run, busy=False)]
    assert said == [(ERROR, "group monitorng"), (WARNING, "lmod_openmpi")]


def test_variables_of_groups_apply_to_their_hosts(site: Path) -> None:
    (site / "inventory" / "hosts.yml").write_text("all: {hosts: {gpu1: {ansible_host: 10.0.0.1}}}\n")
    (site / "inventory" / "group_vars").mkdir()
    (site / "inventory" / "group_vars" / "all.yml").write_text("ansible_ssh_private_key_file: /key\n")
    hosts = host_variables(Playbook(site / "play.yml", [str(site / "inventory")], []))
    assert hosts["gpu1"]["ansible_host"] == "10.0.0.1"
    assert inventory.key_files(hosts) == ["/key"]


def declared(site: Path, text: str) -> dict[str, dict[str, object]]:
    """Write an inventory with the location of secrets; return its host variables."""
    (site / "inventory" / "hosts.yml").write_text("all: {hosts: {ctl: {}, gpu1: {}}}\n")
    (site / "inventory" / "group_vars").mkdir()
    (site / "inventory" / "group_vars" / "all.yml").write_text(text)
    return host_variables(Playbook(site / "play.yml", [str(site / "inventory")], []))


def test_secrets_are_where_the_site_declares_them(site: Path) -> None:
    assert inventory.secret_folders({"ctl": {}}, site) == [site / "secrets"]
    assert inventory.secret_folders({}, site) == [site / "secrets"]
    hosts = declared(site, f'kept: "{site}"\ncluster_secrets_dir: "{{{{ kept }}}}/lab"\n')
    folders = inventory.secret_folders(hosts, site)
    assert folders == [site / "lab"]
    (site / "lab").mkdir(mode=0o755)
    (finding,) = [each for each in site_findings(site, [], folders) if each.key == str(site / "lab")]
    assert finding.problem == "is accessible to other users (mode 0755)"


def test_secrets_directory_with_an_undefined_variable_is_left_to_ansible(site: Path) -> None:
    assert inventory.secret_folders(declared(site, 'cluster_secrets_dir: "{{ no_such }}/x"\n'), site) == [
        site / "secrets"
    ]
