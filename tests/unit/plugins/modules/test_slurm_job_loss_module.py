"""Tests that the module refuses changes that would end jobs, and queries slurmctld despite a damaged file."""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING, Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.busbar.cluster.plugins.modules import slurm_change
from module_run import module_result

if TYPE_CHECKING:
    from pathlib import Path

OLD = "NodeName=gpu[1-2] CPUs=4 RealMemory=100\nPartitionName=batch Nodes=ALL\n"
NEW = OLD.replace("gpu[1-2]", "gpu1")
JOB = "7|RUNNING|alice|research|normal|batch|gpu2||1|UNLIMITED|N/A|cpu=1,mem=10M,node=1|"


class Site:
    """A controller with a fake squeue."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        """Simulate a running slurmctld with the configuration OLD."""
        self.folder, self.capsys, self.monkeypatch = folder, capsys, monkeypatch
        (folder / "slurm.conf").write_text(OLD)
        (folder / "job_state").touch()
        monkeypatch.setattr(slurm_change, "BETWEEN_LOOKS_S", 0)
        monkeypatch.setattr(slurm_change, "SLURM_CONF", str(folder / "slurm.conf"))
        self.slurmctld(runs=True)

    def slurmctld(self, *, runs: bool) -> None:
        """Simulate a running or stopped slurmctld."""
        self.monkeypatch.setattr(slurm_change, "daemon_pids", lambda: {"1"} if runs else set())

    def squeue(self, script: str) -> None:
        """Write a fake squeue."""
        program = self.folder / "squeue"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.monkeypatch.setattr(AnsibleModule, "get_bin_path", lambda *_, **__: str(program))

    def run(self, content: str = NEW, **more: object) -> dict[str, Any]:
        """Return the module's result."""
        args = {"content": content, "state_directory": str(self.folder)}
        return module_result(slurm_change, self.capsys, **args, **more)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Site:
    """Return a controller whose only job runs on gpu2."""
    made = Site(tmp_path, monkeypatch, capsys)
    made.squeue(f"echo '{JOB}' | tr '|' '\\037'")
    return made


@pytest.mark.parametrize("check", [False, True])
def test_job_loss_is_refused(site: Site, *, check: bool) -> None:
    answer = site.run(_ansible_check_mode=check)
    assert answer["failed"]
    assert "job 7 of alice (runs on gpu2): node gpu2 is missing from the new slurm.conf" in answer["msg"]
    assert answer["jobs"] == ["7"]


def test_allowed_job_loss_is_a_warning(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(AnsibleModule, "warn", lambda _, text: warnings.append(text))
    answer = site.run(allow=True)
    assert not answer.get("failed")
    assert answer["jobs"] == ["7"]
    assert warnings == ["slurm_allow_job_loss: this run kills these jobs: 7"]


def test_harmless_change_is_accepted_and_removed_objects_are_listed(site: Site) -> None:
    answer = site.run(OLD)
    assert (answer["jobs"], answer["removed"]) == ([], {"nodes": [], "partitions": []})
    site.squeue("true")
    answer = site.run(NEW.replace("batch", "big"))
    assert (answer["jobs"], answer["removed"]) == ([], {"nodes": ["gpu2"], "partitions": ["batch"]})


def test_removal_of_a_used_account_is_refused(site: Site) -> None:
    assert "slurm_accounts" in site.run(OLD, accounts=[{"name": "research", "state": "absent"}])["msg"]


def test_first_installation_has_no_jobs(site: Site) -> None:
    (site.folder / "slurm.conf").unlink()
    assert site.run()["jobs"] == []


def test_note_of_a_killed_run_gives_the_active_configuration(site: Site) -> None:
    path = site.folder / "slurm.conf"
    path.write_text(NEW)
    (site.folder / "note").write_text(json.dumps({str(path): OLD}))
    site.squeue("exit 1")
    site.slurmctld(runs=False)
    assert "removes node gpu2" in site.run(pending=str(site.folder / "note"))["msg"]


def test_running_but_unresponsive_slurmctld_prevents_a_change(site: Site) -> None:
    site.squeue("echo 'Unable to contact slurm controller' >&2; exit 1")
    answer = site.run(f"{OLD}MinJobAge=3\n")
    assert answer["failed"]
    assert "Unable to contact slurm controller" in answer["msg"]
    assert site.run(OLD)["jobs"] == []
    assert site.run(f"{OLD}MinJobAge=3\n", allow=True)["jobs"] == []


def test_invalid_squeue_output_is_not_an_empty_queue(site: Site) -> None:
    site.squeue("echo 'something else'")
    assert "cannot parse the output of squeue" in site.run()["msg"]


def test_damaged_file_does_not_prevent_the_query(site: Site) -> None:
    """Slurm's commands fail with the damaged file, so they use the new one, which names the controller."""
    (site.folder / "slurm.conf").write_text("garbage")
    site.squeue(f'[ -n "$SLURM_CONF" ] || exit 1; grep -q gpu1 "$SLURM_CONF" && echo "{JOB}" | tr "|" "\\037"')
    assert "job 7 of alice" in site.run()["msg"]


def test_only_removals_are_refused_without_slurmctld(site: Site) -> None:
    site.squeue("exit 1")
    site.slurmctld(runs=False)
    assert "slurmctld is not running" in site.run(NEW)["msg"]
    # A new file with the same nodes is accepted, also over a damaged one.
    assert site.run(f"{OLD}MinJobAge=3\n")["jobs"] == []
    (site.folder / "slurm.conf").write_text("garbage")
    assert site.run(NEW)["jobs"] == []
    (site.folder / "slurm.conf").write_text(OLD)
    (site.folder / "job_state").unlink()
    assert site.run(NEW)["jobs"] == []
