"""Tests of `busbar prove` on a simulated Slurm of two nodes: its refusals, its job, and its cleanup."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.merged_profiles import site_catalogue
from busbar.commands.prove import MIN_FREE_BYTES
from busbar.node_hardware import Node
from busbar.prove.limits import exceeded_limits
from busbar.prove.node_probe import Programs, found_binary, matched
from executables import executable
from gpu_samples import gpu_xml, log_xml
from report_samples import nccl_text
from validation_site import NODES, TOP, install_slurm

if TYPE_CHECKING:
    from pathlib import Path

# The Python of the nodes: it has MPI, and the collectives print the text that the test prepared.
PYTHON = """#!/bin/bash
case "$2" in "import mpi4py"*) [ ! -e {folder}/no_mpi ]; exit ;; esac
cat {folder}/texts/$SLURM_JOB_NAME
"""
DENIED = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"


class Site:
    """A login node with a simulated Slurm and the user alice."""

    def __init__(self, folder: Path) -> None:
        """Create the login node in a folder."""
        self.slurm, self.work = folder / "slurm", folder / "work"
        for place in (self.slurm / "texts", self.work):
            place.mkdir(parents=True)
        install_slurm(self.slurm)
        for name, nodes in {"node-gpu1": NODES[:1], "node-gpu2": NODES[1:], "cluster": NODES}.items():
            text = nccl_text(nodes, 3 - len(nodes), 4.0)
            (self.slurm / "texts" / f"busbar-{name}").write_text(text, encoding="utf-8")
        executable(self.slurm / "python3", PYTHON.format(folder=self.slurm))

    def put(self, name: str, text: str) -> None:
        """Write a file of the simulated Slurm."""
        path = self.slurm / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def job(self, user: str = "alice", nodes: str = "gpu1,gpu2") -> None:
        """Create job 1 in state RUNNING."""
        for key, value in {"user": user, "nodes": nodes, "state": "RUNNING", "reason": "None"}.items():
            self.put(f"jobs/1/{key}", value)

    def start(self, *options: str, **more: Any) -> subprocess.Popen[str]:  # noqa: ANN401 - of subprocess
        """Start `busbar prove`."""
        path = f"{self.slurm}:/usr/bin:/bin"
        own = {"PATH": path, "LOGNAME": "alice", "HOME": str(self.work), "TMPDIR": str(self.slurm)}
        own["PYTHONPATH"] = f"{TOP / '.collections'}:{TOP / 'scripts'}"
        command = [sys.executable, "-c", "import sys; from busbar.cli import main; sys.exit(main())", "prove", *options]
        given = {"cwd": self.work, "env": own, **more}
        return subprocess.Popen(command, **given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def prove(self, *options: str, **more: Any) -> subprocess.CompletedProcess[str]:  # noqa: ANN401 - of subprocess
        """Run `busbar prove`."""
        with self.start(*options, **more) as run:
            out, err = run.communicate(timeout=120)
        return subprocess.CompletedProcess(run.args, run.returncode, out, err)

    def report(self) -> dict[str, Any]:
        """Return the only report."""
        (path,) = self.work.glob("busbar-report-*/report.json")
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found

    def states(self) -> list[str]:
        """Return the states of all jobs."""
        return [path.read_text(encoding="utf-8") for path in sorted(self.slurm.glob("jobs/*/state"))]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_healthy_cluster_passes_in_one_job_that_is_cancelled_at_the_end(site: Site) -> None:
    done = site.prove("--backend", "mpi", "--floor", "1", "--account", "lab", "--qos", "high", "--time", "30")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (site.report()["verdict"], site.states()) == ("PASS", ["CANCELLED"])
    asked = (site.slurm / "jobs/1/asked").read_text(encoding="utf-8").split()
    assert {"--partition=gpu", "--nodes=2", "--account=lab", "--qos=high", "--time=30", "--exclusive"} <= {*asked}
    (folder,) = site.work.glob("busbar-report-*")
    assert {path.name for path in folder.iterdir()} >= {"report.html", "junit.xml", "cluster.out", "node-gpu1.out"}
    assert not [*folder.glob("*.err")]
    # The space that is required before the job is submitted suffices for the report.
    assert sum(path.stat().st_size for path in folder.iterdir()) < MIN_FREE_BYTES


def test_unknown_hardware_is_described_and_inconclusive(site: Site) -> None:
    done = site.prove("--backend", "mpi")
    assert done.returncode == 3, done.stdout + done.stderr
    report = site.report()
    assert report["verdict"] == "INCONCLUSIVE"
    # Messages name the options of this command and not those of the playbook.
    assert any("set --floor" in test["reason"] for test in report["tests"]), report["tests"]
    assert "validation_" not in "".join(test["reason"] for test in report["tests"])
    text = done.stdout[done.stdout.index("hardware_profiles_extra:") :].partition("\nvalidation of")[0]
    (profile,) = yaml.safe_load(text)["hardware_profiles_extra"].values()
    assert {"sockets", "memory_mb", "nics", "busbw"} <= profile.keys()


def test_a_slow_node_fails_and_is_named(site: Site) -> None:
    slow = nccl_text(["gpu2"], 2, 0.4)
    site.put("texts/busbar-node-gpu2", slow)
    done = site.prove("--backend", "mpi", "--floor", "1")
    assert done.returncode == 1, done.stdout + done.stderr
    assert [culprit["nodes"] for culprit in site.report()["culprits"]] == [["gpu2"]]
    assert "FAIL  culprit nodes: gpu2" in done.stdout


def test_existing_job_is_used_and_kept(site: Site) -> None:
    site.job()
    done = site.prove("--backend", "mpi", "--floor", "1", "--jobid", "1", "--nodes", "3")
    assert done.returncode == 4, done.stdout + done.stderr
    assert site.report()["left_out"] == {"1 of 3 nodes": "not allocated to job 1"}
    assert site.states() == ["RUNNING"]


def test_only_listed_nodes_of_an_existing_job_are_used(site: Site) -> None:
    site.job()
    done = site.prove("--backend", "mpi", "--floor", "1", "--jobid", "1", "--nodelist", "gpu[2-3]")
    assert done.returncode == 4, done.stdout + done.stderr
    assert site.report()["left_out"] == {"gpu3": "not allocated to job 1"}
    asked = [path.read_text(encoding="utf-8") for path in site.slurm.glob("steps/*/asked")]
    assert asked
    assert not [words for words in asked if "gpu1" in words]


def test_unavailable_nodes_of_the_list_are_reported(site: Site) -> None:
    site.put("nodes", "gpu1|idle|none|(null)\ngpu2|drained*|fan|(null)\n")
    done = site.prove("--backend", "mpi", "--floor", "1", "--nodelist", "gpu[1-2]")
    assert done.returncode == 4, done.stdout + done.stderr
    assert site.report()["left_out"] == {"gpu2": "drained (fan)"}
    assert "--nodelist=gpu1" in (site.slurm / "jobs/1/asked").read_text(encoding="utf-8").split()


@pytest.mark.parametrize(
    ("options", "files", "said"),
    [
        (["--partition=x"], {}, ["--partition: unknown partition 'x'; use one of gpu"]),
        ([], {"nodes": "gpu1|idle|none|(null)\n"}, ["partition gpu has no GPUs", "--backend mpi"]),
        (["--nodelist=gpu[2-3]"], {}, ["--nodelist: gpu3 is not in partition gpu: use nodes of gpu[1-2]"]),
        (["--nodelist=gpu1", "--exclude=gpu1"], {}, ["gpu1: not allocated: excluded by --exclude"]),
        (["--nodelist=gpu[1-"], {}, ["--nodelist: "]),
        (["--nodes=2", "--nodelist=gpu1"], {}, ["--nodes: 2 (--nodelist has 1 node(s))"]),
        (["--nodes=9"], {}, ["--nodes: 9 requested, but partition gpu has 2 node(s)"]),
        (["--hardware=hgx_h1000", "--binary=/x"], {}, ["unknown hardware 'hgx_h1000'", "hgx_h100", "--binary: "]),
        (["--jobid=7"], {}, ["job 7 cannot be used: squeue: error: Invalid job id specified"]),
        (
            [],
            {"refuse": f"AssocGrpGRES\nsbatch: error: {DENIED}"},
            ["AssocGrpGRES of your account", "ask the admin"],
        ),
        ([], {"refuse": f"QOSMaxNodePerUserLimit: {DENIED}"}, ["QOSMaxNodePerUserLimit of your QOS", "ask the admin"]),
    ],
)
def test_invalid_requests_are_refused_before_anything_runs(
    site: Site, options: list[str], files: dict[str, str], said: list[str]
) -> None:
    for name, text in files.items():
        site.put(name, text)
    backend = [] if "no GPUs" in said[0] else ["--backend=mpi"]
    done = site.prove(*backend, *options)
    assert (done.returncode, site.states()) == (2, []), done.stdout + done.stderr
    assert all(words in done.stderr for words in said), done.stderr
    assert not [*site.work.iterdir()]


def test_a_job_of_others_and_a_second_run_are_refused(site: Site) -> None:
    site.job(user="bob")
    done = site.prove("--backend=mpi", "--jobid=1")
    assert (done.returncode, done.stderr) == (
        2,
        "busbar: --jobid: job 1 belongs to bob (expected alice): use a job of this user\n",
    )
    site.job()
    for key, value in {"job": "1", "name": "busbar-node-gpu1"}.items():
        site.put(f"steps/1/{key}", value)
    done = site.prove("--backend=mpi", "--jobid=1")
    assert done.returncode == 2
    assert "another busbar prove is already running in job 1" in done.stderr


def test_lock_that_cannot_be_created_is_named(site: Site) -> None:
    site.job()
    lock = site.slurm / f"busbar-prove-{os.getuid()}-1.lock"
    lock.mkdir()
    done = site.prove("--backend=mpi", "--jobid=1")
    said = f"busbar: cannot lock job 1: {lock}: Is a directory: remove it, or set TMPDIR\n"
    assert (done.returncode, done.stderr) == (2, said)


def test_missing_slurm_and_unwritable_folder_are_refused(site: Site) -> None:
    own = {"PATH": "/usr/bin:/bin", "LOGNAME": "alice", "PYTHONPATH": f"{TOP / '.collections'}:{TOP / 'scripts'}"}
    done = site.prove("--backend=mpi", env=own)
    assert done.returncode == 2
    assert "run busbar prove on a login node of Slurm" in done.stderr
    done = site.prove("--backend=mpi", cwd="/proc")
    assert done.returncode == 2
    assert "cannot write reports to /proc/busbar-report-" in done.stderr


def test_root_is_refused(site: Site) -> None:
    done = site.prove(env=os.environ | {"LOGNAME": "root"})
    assert done.returncode == 2
    assert "busbar prove does not run as root" in done.stderr


@pytest.mark.parametrize(
    ("reason", "code", "said"),
    [
        ("PartitionTimeLimit", 2, "MaxTime of the partition (scontrol show partition)"),
        ("QOSMaxWallDurationPerJobLimit", 2, "QOSMaxWallDurationPerJobLimit of your QOS (sacctmgr show qos)"),
        ("AssocMaxNodePerJobLimit", 2, "AssocMaxNodePerJobLimit of your account (sacctmgr show assoc)"),
        ("QOSMinGRES", 2, "lower the minimum QOSMinGRES"),
        ("JobHeldAdmin", 2, "ask the admin to release the job"),
        ("AssocGrpGRES", 2, "GrpTRES gres/gpu=8 (the job needs 16) of account lab"),
        ("QOSGrpNodeLimit", 3, "QOSGrpNodeLimit of your QOS (sacctmgr show qos)"),
        ("Priority", 3, "is pending (Priority)"),
    ],
)
def test_job_that_does_not_start_is_cancelled(site: Site, reason: str, code: int, said: str) -> None:
    site.put("stay", reason)
    site.put("assoc_mgr", "Account=lab UserName= ParentAccount= GrpTRES=cpu=N(0),node=2(1),gres/gpu=8(8)")
    done = site.prove("--backend=mpi", "--wait=1", "--nodelist=gpu[1-2]")
    assert (done.returncode, site.states()) == (code, ["CANCELLED"]), done.stdout + done.stderr
    assert said in done.stdout + done.stderr
    if code == 3:
        assert site.report()["left_out"].keys() == {"gpu1", "gpu2"}
        assert f"did not start within 1 s (--wait): {reason}" in site.report()["reason"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_during_the_wait_in_the_queue_cancels_the_job(site: Site, number: signal.Signals) -> None:
    site.put("stay", "Priority")
    # Under nohup SIGHUP is ignored, and prove would inherit that.
    former = signal.signal(number, signal.SIG_DFL)
    try:
        with site.start("--backend=mpi") as run:
            assert run.stdout is not None
            while "is pending" not in run.stdout.readline():
                assert run.poll() is None
            run.send_signal(number)
            try:
                assert run.wait(60) == 130
            finally:
                run.kill()
    finally:
        signal.signal(number, former)
    assert (site.states(), [*site.work.iterdir()]) == (["CANCELLED"], [])


# Records of slurmctld 24.11.5, shortened; job 10 of alice requests two nodes and four GPUs.
JOB = {"UserId": "alice(2001)", "Account": "research", "QOS": "normal", "TimeLimit": "01:00:00"}
JOB["ReqTRES"] = "cpu=2,mem=4G,node=2,billing=2,gres/gpu=4"
ASSOCIATIONS = """
Account=root UserName= ParentAccount= GrpJobs=N(0) GrpWall=N(1.00) GrpTRES=cpu=N(0),{root} MaxJobs= MaxTRESPJ=
Account=other UserName= ParentAccount=root(1) GrpTRES=node=1(1) MaxWallPJ=
Account=research UserName= ParentAccount=root(1) GrpTRES=cpu=N(0) GrpTRESMins=gres/gpu={minutes}(2) MaxWallPJ=10
Account=research UserName=bob(2002) ParentAccount= GrpTRES=node=1(0) MaxJobs=0(0) MaxWallPJ=10
Account=research UserName=alice(2001) ParentAccount= GrpJobs=N(0) GrpTRES=node=N(0) MaxJobs={jobs} MaxWallPJ=10
QOS=normal(1) GrpJobs=N(0) GrpWall=50(1.00) GrpTRES=node=2(2) MaxWallPJ= MaxTRESPJ=gres/gpu=3 Account Limits= \
root={{MaxTRESPA=cpu=1(0)}} research={{MaxTRESPA=cpu=1(0),mem=1024(0)}} User Limits= bob(2002)={{MaxTRESPU=node=0(0)}} \
alice(2001)={{MaxJobsPU=5(0) MaxTRESPU=cpu=N(0),node=1(0) MaxTRESRunMinsPU=cpu=1(0)}}
QOS=gold(2) GrpJobs=N(0) GrpTRES=node=1(0) Account Limits=No Accounts User Limits=No Users
""".replace("\\\n", "")


@pytest.mark.parametrize(
    ("reason", "partition", "exceeded"),
    [
        ("AssocGrpMemLimit", "", ["GrpTRES mem=1024 (the job needs 4096) of account root"]),
        ("AssocGrpGRESMinutes", "", ["GrpTRESMins gres/gpu=239 (the job needs 240) of account research"]),
        ("AssocMaxJobsLimit", "", ["MaxJobs 0 (the job needs 1) of user alice"]),
        ("AssocMaxWallDurationPerJobLimit", "", ["MaxWallPJ 10 (the job needs 60) of user alice"]),
        ("QOSMaxNodePerUserLimit", "", ["MaxTRESPU node=1 (the job needs 2) of QOS normal"]),
        ("MaxCpuPerAccount", "", ["MaxTRESPA cpu=1 (the job needs 2) of QOS normal", "MaxTRESPA mem=1024"]),
        ("QOSGrpNodeLimit", "", ["GrpWall 50 (the job needs 60) of QOS normal"]),
        ("QOSGrpNodeLimit", "gold", ["GrpWall 50", "GrpTRES node=1 (the job needs 2) of QOS gold"]),
        # Other jobs may block this one.
        ("QOSMaxJobsPerUserLimit", "gold", ["MaxTRESPU node=1"]),
    ],
)
def test_limits_below_the_request_are_found(reason: str, partition: str, exceeded: list[str]) -> None:
    text = ASSOCIATIONS.format(root="mem=1024(0)" if "Mem" in reason else "mem=N(0)", minutes=239, jobs="0(0)")
    if "Minutes" not in reason:
        text = text.replace("gres/gpu=239", "gres/gpu=240")
    found = exceeded_limits(reason, JOB, partition, text)
    assert all(item.startswith(words) for item, words in zip(found, exceeded, strict=True)), found


def test_nodes_without_mpi_are_named(site: Site) -> None:
    site.put("no_mpi", "")
    done = site.prove("--backend=mpi")
    assert (done.returncode, site.states()) == (2, ["CANCELLED"]), done.stdout + done.stderr
    assert "gpu[1-2]: --backend mpi needs Python 3 with mpi4py and numpy" in done.stderr


def test_nccl_tests_is_searched_and_the_searched_paths_are_reported(site: Site) -> None:
    done = site.prove()
    assert (done.returncode, site.states()) == (2, ["CANCELLED"]), done.stdout + done.stderr
    assert "nccl-tests: searched PATH, /usr/local/bin" in done.stdout
    assert "set --binary PATH or --image IMAGE" in done.stderr


def test_nccl_tests_of_an_image_or_a_path_is_used(site: Site) -> None:
    program = f"#!/bin/bash\ncat {site.slurm}/texts/$SLURM_JOB_NAME\n"
    for name in ("all_reduce_perf", "build/all_reduce_perf"):
        site.put(name, program)
        (site.slurm / name).chmod(0o755)
    site.put("pyxis", "lost")
    for options, shown in (
        (["--image=good"], "--container-image=good"),
        (["--binary", "../slurm/build"], "build/all_"),
    ):
        done = site.prove("--floor=1", *options)
        assert done.returncode == 0, done.stdout + done.stderr
        asked = [path.read_text(encoding="utf-8") for path in site.slurm.glob("steps/*/asked")]
        assert [words for words in asked if shown in words]
    assert "--gpus-per-node=8" in (site.slurm / "jobs/1/asked").read_text(encoding="utf-8")
    done = site.prove("--floor=1", "--image=lost")
    assert (done.returncode, set(site.states())) == (2, {"CANCELLED"}), done.stdout + done.stderr
    assert "--image: lost cannot be used on gpu1: container: No such file or directory: lost" in done.stderr


def test_a_module_of_nccl_tests_is_loaded() -> None:
    nodes = {"n1": Node("n1", {"module": ["nccl-tests/2.13(default)"]})}
    said: list[str] = []
    assert found_binary(nodes, "", said.append) == Programs(["all_reduce_perf"], setup="module load nccl-tests/2.13")
    assert said[-1] == "nccl-tests: module nccl-tests/2.13"


def sections(ports: int = 8, rate: int = 400, gpus: int = 8) -> dict[str, list[str]]:
    links = [f"GPU {index}: X (UUID: GPU-{index})" for index in range(gpus)]
    shown = [line for each in links for line in (each, *(f"\t Link {link}: 26.562 GB/s" for link in range(18)))]
    files = {"state": "4: ACTIVE", "rate": f"{rate} Gb/sec (4X NDR)", "link_layer": "InfiniBand"}
    folder = "/sys/class/infiniband/mlx5_{}/ports/1/{}={}"
    return {
        "cpu": ["Socket(s):             2", "Core(s) per socket:    48", "Thread(s) per core:    2"],
        "memory": ["MemTotal:       1056000000 kB"],
        "smi": log_xml(*(gpu_xml(index) for index in range(gpus))).splitlines(),
        "nvlink": shown,
        "sys": [folder.format(port, key, value) for port in range(ports) for key, value in files.items()],
    }


@pytest.mark.parametrize(
    ("found", "profile"),
    [
        (sections(), "hgx_h100"),
        # NICs for storage have the same speed.
        (sections(ports=10), "hgx_h100"),
        (sections(ports=4), ""),
        (sections(rate=200), ""),
        (sections(gpus=7), ""),
    ],
)
def test_node_is_matched_to_a_profile_with_the_same_gpus_and_nics(found: dict[str, list[str]], profile: str) -> None:
    catalogue = site_catalogue({})
    hardware, known, text = matched({"n1": Node("n1", found)}, catalogue)
    assert (hardware["n1"] if hardware["n1"] in catalogue else "") == profile
    assert bool(text) == (not profile)
    assert hardware["n1"] in known
