"""Tests of a Slurm upgrade during running jobs, from Debian 13's 24.11 to Debian testing's release, without loss."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from conftest import QUICK, TOP, Cluster, as_json, plain_environment, recap
from test_add_nodes import grow
from test_failover import is_unbroken
from test_health import LOST, recording
from test_repair_nodes import BOOTS, CHECK, REBOOT, RECORDING, SCRIPT, repair
from test_validation_stages import SOAK
from wheel_user import PROVE, install_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.proves("slurm")]

OLD, NEW = "24.11", "26.05"
RELEASE = {"slurm_repository": {"release": NEW, "suite": "testing", "expired": True}}
# Debian testing's packages have no PMIx plugin.
WITHOUT = ("-e", "upgrade_slurm_without_mpi=pmix")
FOLDER, DBD = "/var/lib/busbar/upgrade_slurm", "/etc/slurm/slurmdbd.conf"
LINES, GO = "/shared/through.txt", "/shared/go-on"
THROUGH = f"""#!/bin/sh
#SBATCH -w gpu1 --mem=64 -o {LINES} --job-name=through
while [ -e {GO} ]; do date +%s; sleep 1; done
srun --mem=64 echo a step after
"""


@pytest.fixture(scope="module")
def cluster(sandbox_name: str) -> Iterator[Cluster]:
    """Return a sandbox of Debian 13 with a running job, a waiting one, and some finished ones."""
    one = Cluster(f"{sandbox_name}-upgrade")
    made = one.busbar("sandbox", "up", "--name", one.name)
    assert made.returncode == 0, made.stderr
    done = one.busbar("provision", "--sandbox", "--name", one.name, "-e", "validation_stages=node")
    assert done.returncode == 0, done.stdout + done.stderr
    one.exec("login", f"touch {GO}; cat >/shared/through.sh <<'END'\n{THROUGH}END", user="alice")
    one.exec("login", "for i in 1 2 3; do srun --mem=64 -w gpu2 --gpus=1 true; done", user="alice")
    one.exec("login", "sbatch /shared/through.sh", user="alice")
    one.wait_until(lambda: "RUNNING" in states(one).values(), "the job does not start")
    one.exec(
        "login", "sbatch -N2 --exclusive --job-name=waits -o /shared/waits.txt --wrap 'srun hostname'", user="alice"
    )
    yield one
    gone = one.busbar("sandbox", "down", "--name", one.name)
    assert gone.returncode == 0, gone.stderr


def states(one: Cluster) -> dict[str, str]:
    """Return the state of each job from accounting."""
    listed = one.exec("ctl", "sacct -a -nX -P -o JobID,State").stdout
    return dict(line.split("|") for line in listed.split())


def rows(one: Cluster, database: str = "ctl") -> str:
    """Return the numbers of jobs, steps and users in accounting."""
    name = one.exec("ctl", "scontrol show config | sed -n 's/^ClusterName *= //p'").stdout.strip()
    tables = (f"{name}_job_table", f"{name}_step_table", f"{name}_assoc_table", "user_table", "qos_table")
    counts = [f"SELECT COUNT(*) FROM `{table}`;" for table in tables]  # noqa: S608 - names of this file
    return one.exec(database, f"mariadb -N slurm_acct_db -e '{' '.join(counts)}'").stdout.strip()


def upgrade(one: Cluster, *arguments: str) -> tuple[int, str, str]:
    """Run the upgrade; return exit code, output in one line, and the original output."""
    done = one.playbook("upgrade_slurm.yml", *arguments)
    said = f"{done.stdout} {done.stderr}"
    return done.returncode, " ".join(said.split()), said


def release(one: Cluster, node: str, command: str) -> str:
    found = re.search(r"\d+\.\d+", one.exec(node, command).stdout)
    assert found
    return found[0]


def test_upgrade_without_another_source_does_nothing(cluster: Cluster) -> None:
    code, said, output = upgrade(cluster)
    assert code == 0, said
    assert "nothing to do: all hosts have 24.11" in said
    assert {counts["changed"] for counts in recap(output).values()} == {0}


def test_unsupported_releases_and_bad_options_change_nothing(cluster: Cluster) -> None:
    for given, told in (
        ({"slurm_repository": {"release": "26.5", "suite": "testing"}}, "'26.5' is not a Slurm release"),
        ({"upgrade_slurm_bach": 1}, "upgrade_slurm_bach: unknown option of upgrade_slurm"),
        (RELEASE | {"upgrade_slurm_batch": "0"}, "upgrade_slurm_batch: '0'"),
        ({"upgrade_slurm_rollback": True}, "no upgrade of slurmdbd has started"),
    ):
        code, said, _ = upgrade(cluster, "-e", json.dumps(given))
        assert (code, told in said) == (2, True), said
    assert cluster.exec("ctl", "ls /etc/apt/preferences.d").stdout == ""
    is_unbroken(cluster, LINES)


def test_dry_run_shows_the_plan_and_the_same_errors(cluster: Cluster) -> None:
    with (cluster.inventory / "group_vars/all/upgrade.yml").open("w") as file:
        json.dump(RELEASE, file)
    for arguments in (("--check",), ("-e", "upgrade_slurm_dry_run=true")):
        code, said, output = upgrade(cluster, *arguments)
        assert code == 2, said
        assert "gpu1: upgrade_slurm_without_mpi: the new packages lack the plugin for srun --mpi=pmix" in said, said
        code, said, output = upgrade(cluster, *arguments, *WITHOUT, "-e", "pyxis_enabled=true")
        assert code == 0, said
        assert "srun loses --mpi=pmix" in said, said
        assert "SPANK plugins (pyxis) are built for the new release" in said, said
        assert re.search(r"1\. slurmdbd of ctl: 24\.11\.5\S* -> 26\.05", said), said
        assert re.search(r"3\. slurmd of gpu\[1-2\]: 24\.11\.5\S* -> 26\.05.*in 2 batches: gpu1; gpu2", said), said
        assert re.search(r"running jobs that continue: job \d+ of alice'", said), said
        assert f"the database is dumped into {FOLDER} on ctl" in said
        assert {counts["changed"] for counts in recap(output).values()} == {0}
    assert cluster.exec("ctl", "ls /etc/apt/preferences.d").stdout == ""


def test_site_run_does_not_upgrade(cluster: Cluster) -> None:
    done = cluster.playbook("slurm.yml")
    assert done.returncode == 0, done.stdout[-2000:]
    assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}
    assert release(cluster, "ctl", "slurmctld -V") == OLD


def test_packages_without_pmix_are_refused_unless_allowed(cluster: Cluster) -> None:
    code, said, _ = upgrade(cluster)
    assert code == 2
    assert "the new packages lack the plugin for srun --mpi=pmix" in said, said
    assert release(cluster, "ctl", "slurmctld -V") == OLD
    is_unbroken(cluster, LINES)


def test_new_slurmdbd_that_does_not_start_is_rolled_back(cluster: Cluster) -> None:
    before, accounted = states(cluster), rows(cluster)
    cluster.exec("ctl", f"cp -p {DBD} {DBD}.sound; echo NoSuchKey=1 >>{DBD}")
    code, said, _ = upgrade(cluster, *WITHOUT)
    assert code == 2
    assert "The new slurmdbd does not start" in said, said
    assert "-e upgrade_slurm_rollback=true" in said
    cluster.exec("ctl", f"mv {DBD}.sound {DBD}")
    code, said, _ = upgrade(cluster, "-e", "upgrade_slurm_rollback=true")
    assert code == 0, said
    assert "ctl: restored Slurm 24.11" in said, said
    assert release(cluster, "ctl", "slurmdbd -V") == release(cluster, "ctl", "slurmctld -V") == OLD
    assert states(cluster) == before
    assert rows(cluster) == accounted
    is_unbroken(cluster, LINES)


def test_killed_upgrade_is_finished_by_the_next_without_loss(cluster: Cluster) -> None:
    before, accounted = states(cluster), rows(cluster)
    command = ["ansible-playbook", "-i", str(cluster.inventory), str(TOP / "playbooks/upgrade_slurm.yml"), *WITHOUT]
    run = subprocess.Popen(command, cwd=TOP, env=plain_environment(), stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        drained = "sinfo -h -n gpu1 -o '%E' | grep -q 'busbar: upgrade'"
        cluster.wait_until(
            lambda: cluster.exec("ctl", drained, check=False).returncode == 0, "the compute nodes are not reached", 500
        )
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    assert release(cluster, "ctl", "slurmctld -V") == NEW
    assert release(cluster, "login", "sinfo -V") == OLD
    code, said, _ = upgrade(cluster, "-e", "upgrade_slurm_rollback=true")
    assert (code, "has already run" in said) == (2, True), said
    code, said, _ = upgrade(cluster, *WITHOUT)
    assert code == 0, said
    assert "1. slurmdbd" not in said
    note = [line for line in said.split("'") if "was down" in line]
    assert note, said
    for node, commands in {
        "ctl": ("slurmdbd -V", "slurmctld -V", "scontrol show config | grep SLURM_VERSION"),
        "gpu1": ("slurmd -V", "scontrol show node gpu1 | grep -o 'Version=.*'"),
        "gpu2": ("slurmd -V", "scontrol show node gpu2 | grep -o 'Version=.*'"),
        "login": ("sinfo -V",),
    }.items():
        assert {release(cluster, node, each) for each in commands} == {NEW}, node
    assert states(cluster) == before
    assert rows(cluster) == accounted
    assert cluster.node_states() == {"gpu1": "mix", "gpu2": "idle"}
    is_unbroken(cluster, LINES)


def test_jobs_from_before_complete_and_new_ones_run(cluster: Cluster) -> None:
    cluster.exec("login", f"rm {GO}", user="alice")
    ended = lambda: not {"RUNNING", "PENDING", "COMPLETING"} & {*states(cluster).values()}  # noqa: E731
    cluster.wait_until(ended, "the jobs do not end", 120)
    output = cluster.exec("login", f"tail -n 3 {LINES} /shared/waits.txt").stdout
    assert set(states(cluster).values()) == {"COMPLETED"}, output
    assert cluster.exec("login", f"tail -n 1 {LINES}").stdout == "a step after\n"
    assert sorted(cluster.exec("login", "cat /shared/waits.txt").stdout.split()) == ["gpu1", "gpu2"]
    done = cluster.exec("login", "srun --gpus-per-node=1 nvidia-smi -L", user="alice")
    assert done.stdout == "GPU 0: Simulated GPU (UUID: GPU-simulated-gpu1-0)\n"
    # Only the database format is converted: users and limits are unchanged.
    assert "alice" in cluster.exec("ctl", "sacctmgr -nP show assoc format=user").stdout


def test_accounting_answers_in_json(cluster: Cluster) -> None:
    jobs = json.loads(cluster.exec("ctl", "sacct -a -X --json", timeout=120).stdout)["jobs"]
    assert {job["state"]["current"][0] for job in jobs} == {"COMPLETED"}


def test_second_upgrade_and_site_run_change_nothing(cluster: Cluster) -> None:
    code, said, output = upgrade(cluster)
    assert code == 0, said
    assert "nothing to do: all hosts have 26.05" in said
    assert {counts["changed"] for counts in recap(output).values()} == {0}
    done = cluster.playbook("slurm.yml")
    assert done.returncode == 0, done.stdout[-2000:]
    assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}, done.stdout[-3000:]
    assert release(cluster, "ctl", "slurmctld -V") == NEW


def last_report(one: Cluster) -> dict[str, Any]:
    """Return the report of the last validation."""
    return dict(as_json((one.state / "reports/latest/report.json").read_text(encoding="utf-8")))


def test_new_release_is_validated_without_pmix(cluster: Cluster) -> None:
    asked = {"validation_stages": ["cluster"], "__validation_mpi_ranks_per_node": 2}
    done = cluster.playbook("validate.yml", *QUICK, "-e", json.dumps(asked))
    assert done.returncode == 0, done.stdout
    report = last_report(cluster)
    assert report["verdict"] == "PASS"
    (test,) = report["tests"]
    assert (test["ranks"], test["environment"]["MPI without PMIx by"]) == (4, "mpirun")
    assert NEW in test["environment"]["Slurm"]


def test_ordinary_user_proves_the_nodes(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> None:
    alice = install_wheel(cluster, tmp_path_factory)
    done = alice.run(PROVE)
    assert done.returncode == 0, done.stdout + done.stderr
    report = alice.report()
    assert (report["verdict"], sorted(report["nodes"])) == ("PASS", ["gpu1", "gpu2"])
    assert NEW in report["tests"][-1]["environment"]["Slurm"]
    alice.wait_for_none()


def test_nodes_are_monitored_while_a_soak_uses_their_memory(cluster: Cluster) -> None:
    """The verdict depends on the speed of the machine; the monitoring does not."""
    cluster.playbook("validate.yml", *QUICK, "-e", json.dumps({"validation_stages": ["soak"], **SOAK}))
    (test,) = last_report(cluster)["tests"]
    assert test["soak"]["watched"], test
    assert "reported nothing" not in f"{test['reason']} {test['findings']}"


def test_job_that_slurmd_cannot_launch_ends_with_slurmds_reason(cluster: Cluster) -> None:
    """With variable names in --export, slurmd runs `su -`, which fails for an account without a shell."""
    who = "busbar-validation"
    for node in cluster.compute:
        cluster.exec(node, f"usermod -s /usr/sbin/nologin {who}")
    asked = {"validation_stages": ["cluster"], "validation_sbatch_arguments": ["--export=ALL,OF_THE_SITE=1"]}
    done = cluster.playbook("validate.yml", "-t", "validation_run", *QUICK, "-e", json.dumps(asked))
    assert done.returncode == 2, done.stdout
    report = last_report(cluster)
    assert report["verdict"] == "INCONCLUSIVE"
    assert "slurmd on gpu1 could not launch the job: _get_user_env: Unable to get user's local env" in report["reason"]
    # The role restores the shell of the account, and the same arguments work.
    done = cluster.playbook("validate.yml", *QUICK, "-e", json.dumps(asked))
    assert done.returncode == 0, done.stdout


def test_nodes_are_updated_and_validated(cluster: Cluster) -> None:
    # The update must not replace libraries of Open MPI with those of Slurm's repository.
    options = ("update_nodes=gpu2", "update_nodes_packages=all", "update_nodes_reboot=never")
    done = cluster.playbook("update_nodes.yml", *QUICK, *(word for option in options for word in ("-e", option)))
    assert done.returncode == 0, done.stdout[-3000:]
    report = last_report(cluster)
    assert (report["verdict"], report["nodes"]) == ("PASS", ["gpu2"])
    assert cluster.node_states() == {"gpu1": "idle", "gpu2": "idle"}


def test_node_is_repaired_and_validated(cluster: Cluster) -> None:
    cluster.exec("gpu1", f"cat >{REBOOT} <<'END'\n{SCRIPT}END\nchmod +x {REBOOT}; date +%s%N >{BOOTS}")
    cluster.exec("gpu1", f"cp {RECORDING} {RECORDING}.sound")
    cluster.exec("gpu1", recording(LOST))
    cluster.exec("gpu1", CHECK)
    assert cluster.node_states()["gpu1"].startswith("drain")
    code, said = repair(cluster)
    assert code == 0, said
    report = last_report(cluster)
    assert (report["verdict"], report["nodes"]) == ("PASS", ["gpu1"])
    assert cluster.node_states() == {"gpu1": "idle", "gpu2": "idle"}


def test_node_is_added_with_the_new_release(cluster: Cluster) -> None:
    grow(cluster, 3)
    assert release(cluster, "gpu3", "slurmd -V") == NEW
    report = last_report(cluster)
    assert (report["verdict"], report["nodes"]) == ("PASS", ["gpu3"])
    assert cluster.node_states() == {"gpu1": "idle", "gpu2": "idle", "gpu3": "idle"}


def test_feature_of_the_new_release_can_be_enabled(cluster: Cluster) -> None:
    wanted = {"slurm_config": {"MetricsType": "metrics/openmetrics"}}
    done = cluster.playbook("slurm.yml", "-e", json.dumps(wanted))
    assert done.returncode == 0, done.stdout[-2000:]
    ask = "import urllib.request as r; print(r.urlopen('http://localhost:6817/metrics/nodes').read().decode())"
    assert 'slurm_node_cpus{node="gpu1"} 2' in cluster.exec("ctl", f'python3 -c "{ask}"').stdout
