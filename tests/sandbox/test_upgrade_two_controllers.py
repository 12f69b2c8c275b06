"""Tests of an upgrade with two controllers and a separate slurmdbd host while a job runs and new jobs are submitted."""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
from typing import TYPE_CHECKING

import pytest
import yaml
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.busbar_drain_reasons import UPGRADE_REASON
from conftest import Cluster, recap
from test_failover import REFUSED, SUBMITS, accounted, controllers, is_unbroken, sent, submitting
from test_spank import PLUGIN
from test_upgrade_slurm import DBD, NEW, OLD, RELEASE, WITHOUT, release, rows, upgrade

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.proves("slurm", "slurm_spank")]

# The third compute node of the sandbox is the accounting host instead; ctl2 is the backup for both daemons.
DATABASE = "gpu3"
GO, LINES = "/shared/go-on", "/shared/runs.txt"
RUNS = f"while [ -e {GO} ]; do date +%s; sleep 1; done; srun --mem=64 echo a step after"
# Error of a command whose libraries are replaced while it starts; an outdated plugin is not accepted as the cause.
REPLACED = "Segmentation fault|cannot open shared object"
# A manually built plugin, at the same path on all hosts.
OWN, STACK = "/shared/welcome.so", "/etc/slurm/plugstack.conf"
LINE = f"required {OWN} default=hi"
BUILD = f"cc -shared -fPIC -o {OWN} /shared/welcome.c"


@pytest.fixture(scope="module")
def cluster(sandbox_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Return a sandbox with two controllers, a SPANK plugin, and a job that runs during the upgrade."""
    one = Cluster(f"{sandbox_name}-two")
    made = one.busbar("sandbox", "up", "--name", one.name, "--controllers", "2", "--compute", "3")
    assert made.returncode == 0, made.stderr
    declare(one, plugin(tmp_path_factory.mktemp("spank")))
    done = one.busbar("provision", "--sandbox", "--name", one.name, "-e", "validation_stages=node", timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    one.exec("login", f"touch {GO}; cat >/shared/submit.sh <<'END'\n{SUBMITS}END", user="alice")
    one.exec("login", f"sbatch --job-name=runs -w gpu1 --mem=128 -o {LINES} --wrap '{RUNS}'", user="alice")
    one.wait_until(lambda: "RUNNING" in one.exec("login", "squeue -h -n runs -o %T").stdout, "the job does not start")
    yield one
    gone = one.busbar("sandbox", "down", "--name", one.name)
    assert gone.returncode == 0, gone.stderr


def declare(one: Cluster, spank: dict[str, object]) -> None:
    """Make a node the accounting host, and declare the plugin."""
    path = one.inventory / "hosts.yml"
    groups = yaml.safe_load(path.read_text(encoding="utf-8"))
    children = groups["all"]["children"]
    database = children["sandbox_gpu"]["hosts"].pop(DATABASE)
    children["slurm_database"]["hosts"] = {DATABASE: database, "ctl2": {}}
    path.write_text(yaml.safe_dump(groups, sort_keys=False), encoding="utf-8")
    (one.inventory / "group_vars/all/spank.yml").write_text(
        yaml.safe_dump({"slurm_spank_plugins": [spank]}), encoding="utf-8"
    )


def plugin(folder: Path) -> dict[str, object]:
    """Return the declaration of a plugin with the archive of its sources."""
    archive = folder / "greeting.tar.gz"
    with tarfile.open(archive, "w:gz") as stream:
        stream.add(PLUGIN, arcname="greeting")
    return {
        "name": "greeting",
        "version": "1.0",
        "source": str(archive),
        "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
        "provides": ["--greeting"],
        "arguments": ["default=hello"],
    }


def greeting(one: Cluster, option: str = "") -> list[str]:
    """Return the plugin's variable in the environment of a job's tasks."""
    return one.exec(
        "login", f"srun --quiet -w gpu2 --mem=64 {option} printenv BUSBAR_GREETING", user="alice"
    ).stdout.split()


def loaded_plugins(one: Cluster, node: str) -> str:
    """Return the plugstack of a node."""
    return one.exec(node, f"cat {STACK} {STACK}.d/*.conf").stdout


def test_both_controllers_answer_and_the_plugin_works(cluster: Cluster) -> None:
    assert controllers(cluster) == ["UP", "UP"]
    assert cluster.exec(DATABASE, "systemctl is-active slurmdbd mariadb").stdout.split() == ["active", "active"]
    assert cluster.exec("ctl2", "systemctl is-active slurmctld slurmdbd").stdout.split() == ["active", "active"]
    assert greeting(cluster) == ["hello"]
    assert {release(cluster, "login", "sinfo -V"), release(cluster, "ctl2", "slurmctld -V")} == {OLD}


def test_plan_lists_both_hosts_of_each_daemon(cluster: Cluster) -> None:
    (cluster.inventory / "group_vars/all/upgrade.yml").write_text(json.dumps(RELEASE), encoding="utf-8")
    code, said, output = upgrade(cluster, *WITHOUT, "--check")
    assert code == 0, said
    assert re.search(r"1\. slurmdbd of ctl2,gpu3: 24\.11\.5\S* -> 26\.05", said), said
    assert re.search(r"2\. slurmctld of ctl\[?,?2?\]?,?c?t?l?2?: 24\.11\.5\S* -> 26\.05", said), said
    assert f"the database is dumped into /var/lib/busbar/upgrade_slurm on {DATABASE}" in said
    assert {counts["changed"] for counts in recap(output).values()} == {0}


def load_own(one: Cluster, *, wanted: bool) -> None:
    """Add or remove the line of the manually built plugin."""
    change = f"echo '{LINE}' >>{STACK}" if wanted else f"sed -i '\\|{OWN}|d' {STACK}"
    for node in ("ctl", "ctl2"):
        one.exec(node, change)
    one.exec("ctl", "scontrol reconfigure")


def welcome(one: Cluster) -> subprocess.CompletedProcess[str]:
    """Run a job with the option of the manually built plugin."""
    job = "srun --quiet -w gpu2 --mem=64 --welcome=moin printenv BUSBAR_WELCOME"
    return one.exec("login", job, user="alice", check=False)


def test_plugin_not_built_by_busbar_is_refused(cluster: Cluster) -> None:
    source = (PLUGIN / "greeting.c").read_text(encoding="utf-8")
    source = source.replace("greeting", "welcome").replace("GREETING", "WELCOME")
    cluster.exec("ctl", f"cat >/shared/welcome.c <<'END'\n{source}\nEND\n{BUILD}")
    load_own(cluster, wanted=True)
    try:
        cluster.wait_until(lambda: welcome(cluster).stdout == "moin\n", "the plugin does not welcome")
        for check in (("--check",), ()):
            code, said, output = upgrade(cluster, *WITHOUT, *check)
            assert code == 2, said
            assert f"ctl,ctl2,gpu[1-2],login: slurm_spank_plugins: {OWN} is built for Slurm 24.11" in said, said
            assert f"remove its line from {STACK} until you have built it for 26.05" in said
            assert {counts["changed"] for counts in recap(output).values()} == {0}
    finally:
        load_own(cluster, wanted=False)
    assert greeting(cluster) == ["hello"]


def test_new_slurmdbd_that_does_not_start_is_rolled_back_on_both_hosts(cluster: Cluster) -> None:
    before = rows(cluster, DATABASE)
    plugins = loaded_plugins(cluster, "ctl2")
    assert "greeting" in plugins
    cluster.exec(DATABASE, f"cp -p {DBD} {DBD}.sound; echo NoSuchKey=1 >>{DBD}")
    code, said, _ = upgrade(cluster, *WITHOUT)
    assert (code, "The new slurmdbd does not start" in said) == (2, True), said
    cluster.exec(DATABASE, f"mv {DBD}.sound {DBD}")
    code, said, _ = upgrade(cluster, "-e", "upgrade_slurm_rollback=true")
    assert code == 0, said
    assert {release(cluster, node, "slurmdbd -V") for node in (DATABASE, "ctl2")} == {OLD}
    assert controllers(cluster) == ["UP", "UP"]
    assert cluster.exec("ctl2", "systemctl is-active slurmctld slurmdbd").stdout.split() == ["active", "active"]
    assert rows(cluster, DATABASE) == before
    assert loaded_plugins(cluster, "ctl2") == plugins
    is_unbroken(cluster)


def test_all_hosts_are_upgraded_while_jobs_are_submitted(
    cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    with submitting(cluster, f"{REFUSED}|{REPLACED}"):
        code, said, _ = upgrade(cluster, *WITHOUT)
        assert code == 0, said
        assert controllers(cluster) == ["UP", "UP"]
    for note in re.findall(r"\w+: slurm\w+ was down for \d+ s", said):
        record_property("pause", note)
    record_property("jobs submitted", len(sent(cluster)))
    ended = sum(accounted(cluster)[name] == {"COMPLETED"} for name in sent(cluster))
    record_property("jobs accounted as completed", ended)
    is_unbroken(cluster)
    for node, commands in {
        DATABASE: ("slurmdbd -V",),
        "ctl": ("slurmctld -V", "scontrol show config | grep SLURM_VERSION"),
        "ctl2": ("slurmctld -V", "slurmdbd -V"),
        "gpu1": ("slurmd -V", "scontrol show node gpu1 | grep -o 'Version=.*'"),
        "gpu2": ("slurmd -V", "scontrol show node gpu2 | grep -o 'Version=.*'"),
        "login": ("sinfo -V",),
    }.items():
        assert {release(cluster, node, each) for each in commands} == {NEW}, node


def test_plugin_is_built_for_the_new_release(cluster: Cluster) -> None:
    line = cluster.exec("ctl", "cat /etc/slurm/plugstack.conf.d/busbar-greeting.conf").stdout
    assert f"/greeting-1.0-slurm{NEW}" in line
    assert greeting(cluster) == ["hello"]
    assert greeting(cluster, "--greeting=moin") == ["moin"]


def test_nodes_left_without_plugin_by_an_interrupted_run_return_to_service(cluster: Cluster) -> None:
    """Simulates a run that ends after the last slurmd and before the plugins: drained, and without the line."""
    cluster.exec("gpu2", "rm -f /etc/slurm/plugstack.conf.d/busbar-greeting.conf")
    cluster.exec("ctl", f"scontrol update nodename=gpu2 state=drain reason='{UPGRADE_REASON}'")
    code, said, _ = upgrade(cluster)
    assert code == 0, said
    cluster.wait_until(lambda: cluster.node_states()["gpu2"] == "idle", "gpu2 stays drained")
    assert greeting(cluster) == ["hello"]


def test_outdated_manual_plugin_breaks_jobs_and_a_rebuilt_one_works(cluster: Cluster) -> None:
    load_own(cluster, wanted=True)
    try:
        broken = welcome(cluster)
        assert (broken.returncode != 0, "Incompatible Slurm plugin" in broken.stderr) == (True, True), broken.stderr
        code, said, _ = upgrade(cluster, "--check")
        assert (code, f"{OWN} is built for Slurm 24.11" in said) == (2, True), said
        cluster.exec("ctl", BUILD)
        cluster.exec("ctl", "scontrol reconfigure")
        cluster.wait_until(lambda: welcome(cluster).stdout == "moin\n", "the plugin does not welcome")
    finally:
        load_own(cluster, wanted=False)
    cluster.wait_until(lambda: cluster.node_states() == {"gpu1": "mix", "gpu2": "idle"}, "a node is out of service")


def test_backup_daemons_work_with_the_new_release(cluster: Cluster) -> None:
    taken: list[str] = []

    def takes_a_job() -> bool:
        submit = "sbatch --parsable --mem=16 -o /shared/backup.txt --wrap 'echo ran'"
        taken.append(cluster.exec("login", submit, user="alice", check=False, timeout=120).stdout.strip())
        return taken[-1] != ""

    def ran() -> bool:
        return cluster.exec("login", "cat /shared/backup.txt", check=False).stdout == "ran\n"

    def state() -> str:
        asked = f"sacct -nX -P -j {taken[-1]} -o State"
        return cluster.exec("login", asked, check=False, timeout=90).stdout.strip()

    cluster.exec("ctl", "systemctl stop slurmctld")
    try:
        cluster.wait_until(lambda: controllers(cluster) == ["DOWN", "UP"], "the primary does not stop")
        cluster.wait_until(takes_a_job, "the backup takes no job", 240)
        cluster.wait_until(ran, "the job does not run", 240)
    finally:
        cluster.exec("ctl", "systemctl start slurmctld", timeout=120)
    cluster.wait_until(lambda: controllers(cluster) == ["UP", "UP"], "the primary does not come back", 120)
    # A backup slurmctld of 26.05.5 stores accounting records in the shared state; a starting slurmctld sends them.
    cluster.exec("ctl", "systemctl restart slurmctld", timeout=120)
    cluster.wait_until(lambda: state() == "COMPLETED", "the job is not accounted", 120)
    cluster.exec(DATABASE, "systemctl stop slurmdbd")
    try:
        cluster.wait_until(lambda: state() == "COMPLETED", "the second slurmdbd does not answer", 240)
    finally:
        cluster.exec(DATABASE, "systemctl start slurmdbd")
    is_unbroken(cluster)


def test_job_from_before_the_upgrade_completes(cluster: Cluster) -> None:
    cluster.exec("login", f"rm {GO}", user="alice")
    cluster.wait_until(lambda: accounted(cluster)["runs"] == {"COMPLETED"}, "the job does not end well", 120)
    assert cluster.exec("login", f"tail -n 1 {LINES}").stdout == "a step after\n"


def test_second_upgrade_and_site_run_change_nothing(cluster: Cluster) -> None:
    for name in ("upgrade_slurm.yml", "slurm.yml", "containers.yml"):
        done = cluster.playbook(name)
        assert done.returncode == 0, done.stdout[-3000:]
        assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}, done.stdout[-3000:]
    assert controllers(cluster) == ["UP", "UP"]
