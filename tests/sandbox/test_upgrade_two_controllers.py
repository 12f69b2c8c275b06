"""Two controllers, and slurmdbd on a host of its own: upgraded under a job that runs and jobs that come in."""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
from typing import TYPE_CHECKING

import pytest
import yaml
from conftest import Cluster, recap
from test_failover import accounted, controllers, is_unbroken, sent, submitting
from test_spank import PLUGIN, STATE
from test_upgrade_slurm import NEW, OLD, RELEASE, WITHOUT, release, rows, upgrade

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.proves("slurm", "slurm_spank")]

# The third compute node of the sandbox keeps the accounting instead; ctl2 stands by for both daemons.
DATABASE = "gpu3"
GO, LINES = "/shared/go-on", "/shared/runs.txt"
RUNS = f"while [ -e {GO} ]; do date +%s; sleep 1; done; srun --mem=64 echo a step after"
HOSTS = ("ctl", "ctl2", DATABASE, "login", "gpu1", "gpu2")


@pytest.fixture(scope="module")
def cluster(sandbox_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A sandbox with two controllers, a SPANK plugin, and a job that runs through the upgrade."""
    one = Cluster(f"{sandbox_name}-two")
    made = one.busbar("sandbox", "up", "--name", one.name, "--controllers", "2", "--compute", "3")
    assert made.returncode == 0, made.stderr
    declare(one, plugin(tmp_path_factory.mktemp("spank")))
    done = one.busbar("provision", "--sandbox", "--name", one.name, "-e", "validation_stages=node", timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    one.exec("login", f"touch {GO}", user="alice")
    one.exec("login", f"sbatch --job-name=runs -w gpu1 --mem=128 -o {LINES} --wrap '{RUNS}'", user="alice")
    one.wait_until(lambda: "RUNNING" in one.exec("login", "squeue -h -n runs -o %T").stdout, "the job does not start")
    yield one
    gone = one.busbar("sandbox", "down", "--name", one.name)
    assert gone.returncode == 0, gone.stderr


def declare(one: Cluster, spank: dict[str, object]) -> None:
    """Make a node the host of the accounting, and declare the plugin."""
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
    """What the tasks of a job find in their environment."""
    return one.exec(
        "login", f"srun --quiet -w gpu2 --mem=64 {option} printenv BUSBAR_GREETING", user="alice"
    ).stdout.split()


def test_both_controllers_answer_and_the_plugin_greets(cluster: Cluster) -> None:
    assert controllers(cluster) == ["UP", "UP"]
    assert cluster.exec(DATABASE, "systemctl is-active slurmdbd mariadb").stdout.split() == ["active", "active"]
    assert cluster.exec("ctl2", "systemctl is-active slurmctld slurmdbd").stdout.split() == ["active", "active"]
    assert greeting(cluster) == ["hello"]
    assert {release(cluster, "login", "sinfo -V"), release(cluster, "ctl2", "slurmctld -V")} == {OLD}


def test_the_plan_names_both_of_each(cluster: Cluster) -> None:
    (cluster.inventory / "group_vars/all/upgrade.yml").write_text(json.dumps(RELEASE), encoding="utf-8")
    code, said, output = upgrade(cluster, "--check")
    assert code == 0, said
    assert re.search(r"1\. slurmdbd of ctl2,gpu3: 24\.11\.5\S* -> 26\.05", said), said
    assert re.search(r"2\. slurmctld of ctl\[?,?2?\]?,?c?t?l?2?: 24\.11\.5\S* -> 26\.05", said), said
    assert f"the database is dumped into /var/lib/busbar/upgrade_slurm on {DATABASE}" in said
    assert {counts["changed"] for counts in recap(output).values()} == {0}


def test_all_are_upgraded_while_jobs_come_in(
    cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    with submitting(cluster):
        code, said, _ = upgrade(cluster, *WITHOUT)
        assert code == 0, said
        assert controllers(cluster) == ["UP", "UP"]
    for note in re.findall(r"\w+: slurm\w+ (?:stood still for|was away for) \d+ s", said):
        record_property("pause", note)
    record_property("jobs submitted", len(sent(cluster)))
    record_property("jobs accounted as completed", sum(accounted(cluster)[name] == {"COMPLETED"} for name in sent(cluster)))
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
