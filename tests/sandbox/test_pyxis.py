"""Tests of Pyxis from an archive with known content: built on the controller, loaded by real jobs, and removed.

The source is a simulation that accepts the arguments of the real plugin and starts no container.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.job_output_parser import container_fault
from conftest import TOP, recap
from test_spank import LINE, PACKAGES, PLACES
from validations import validate

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

    from conftest import Cluster

    Apply = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.proves("pyxis", "slurm_spank")

OURS = LINE.replace("greeting", "pyxis")
DIRECTORY = "/etc/tmpfiles.d/busbar-pyxis.conf"


@pytest.fixture(scope="module")
def apply(sandbox: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apply]:
    """Return a function that runs the roles with options; plugin and compiler are removed at the end."""
    archive = tmp_path_factory.mktemp("pyxis") / "pyxis.tar.gz"
    with tarfile.open(archive, "w:gz") as stream:
        stream.add(TOP / "tests" / "fixtures" / "pyxis_plugin", arcname="pyxis-0.24.0")
    declared: dict[str, Any] = {"pyxis_enabled": True, "pyxis_source": str(archive)}
    declared["pyxis_sha256"] = hashlib.sha256(archive.read_bytes()).hexdigest()

    def run(*arguments: str, **change: object) -> subprocess.CompletedProcess[str]:
        return sandbox.playbook("containers.yml", "-t", "slurm_spank", "-e", json.dumps(declared | change), *arguments)

    sandbox.wait_idle()
    before = set(sandbox.exec("ctl", PACKAGES).stdout.split())
    yield run
    gone = run(pyxis_enabled=False)
    assert gone.returncode == 0, gone.stdout
    added = set(sandbox.exec("ctl", PACKAGES).stdout.split()) - before
    if added:
        sandbox.exec("ctl", f"dpkg --purge --force-depends {' '.join(sorted(added))}", timeout=300)
    for node in ("ctl", "login", *sandbox.compute):
        assert sandbox.exec(node, f"ls {OURS}", check=False).stdout == ""
        sandbox.exec(node, f"rm -rf {PLACES} {DIRECTORY} /var/lib/pyxis", check=False)
    sandbox.wait_idle()


@pytest.mark.scenario
def test_jobs_on_all_nodes_have_the_pyxis_options(sandbox: Cluster, apply: Apply) -> None:
    done = apply("--diff")
    assert done.returncode == 0, done.stdout
    for node in sandbox.compute:
        assert sandbox.exec(node, "stat -c '%U %a' /var/lib/pyxis").stdout == "root 755\n"
        assert "runtime_path=/var/lib/pyxis execute_entrypoint=0" in sandbox.exec(node, f"cat {OURS}").stdout
    job = "srun --quiet -N2 --mem=100 --container-image=ubuntu:24.04 printenv STAND_IN_IMAGE"
    assert sandbox.exec("login", job, user="alice").stdout.split() == ["ubuntu:24.04"] * 2
    for node in sandbox.compute:
        assert "/busbar/spank/pyxis-" in sandbox.exec(node, "cat /proc/$(systemctl show -P MainPID slurmd)/maps").stdout
    assert {counts["changed"] for counts in recap(apply().stdout).values()} == {0}


def test_yaml_boolean_is_converted_for_pyxis(sandbox: Cluster, apply: Apply) -> None:
    done = apply(pyxis_options={"use_enroot_load": True}, pyxis_container_scope="job")
    assert done.returncode == 0, done.stdout
    line = sandbox.exec("gpu1", f"cat {OURS}").stdout
    assert "container_scope=job" in line
    assert "use_enroot_load=1" in line
    assert sandbox.exec("login", "srun --quiet -N2 --mem=100 true", user="alice").returncode == 0
    for node in sandbox.compute:
        sandbox.exec(node, "systemctl restart slurmd")
        assert "/busbar/spank/pyxis-" in sandbox.exec(node, "cat /proc/$(systemctl show -P MainPID slurmd)/maps").stdout
    sandbox.wait_idle()


def test_arguments_that_break_jobs_are_refused_or_reverted(sandbox: Cluster, apply: Apply) -> None:
    before = sandbox.exec("gpu1", f"cat {OURS}").stdout
    done = apply(pyxis_options={"use_squashfus": "1"})
    assert done.returncode != 0
    assert "pyxis_options.use_squashfus: is not an argument of Pyxis" in " ".join(done.stdout.split())
    library = before.splitlines()[-1].split()[1]
    wrong = {"name": "pyxis", "version": "0.24.0", "library": library, "arguments": ["use_enroot_load=True"]}
    done = apply(pyxis_enabled=False, slurm_spank_plugins=[wrong | {"provides": ["--container-image"]}])
    assert done.returncode != 0
    said = " ".join(done.stdout.split())
    assert (
        "a job step on gpu1 exited with status 1" in said
        or "slurmd could not be reloaded" in said
        or "not loaded" in said
    )
    assert "The lines that load these plugins were reverted" in said
    for node in sandbox.compute:
        assert sandbox.exec(node, f"cat {OURS}").stdout == before
    sandbox.wait_idle()
    assert sandbox.exec("login", "srun --quiet -N2 --mem=100 true", user="alice").returncode == 0


def test_plugin_is_verified_by_a_step_on_nodes_drained_by_an_upgrade(sandbox: Cluster, apply: Apply) -> None:
    """Slurm starts no step on a drained node, so the step runs in a reservation of root, before jobs of users."""
    assert apply().returncode == 0
    drained = "busbar: upgrade of Slurm"
    begun = sandbox.exec("ctl", "date +%Y-%m-%dT%H:%M:%S").stdout.strip()
    nodes = ",".join(sandbox.compute)
    sandbox.exec("ctl", f"scontrol update nodename={nodes} state=drain reason='{drained}'")
    try:
        done = apply(pyxis_container_scope="job")
        assert done.returncode == 0, done.stdout
        assert "could not run a job step" not in done.stdout
        steps = f"sacct -aXn -P --name busbar-spank -S {begun} -o NodeList,State"
        wanted = sorted(f"{node}|COMPLETED" for node in sandbox.compute)
        sandbox.wait_until(lambda: sorted(sandbox.exec("ctl", steps).stdout.split()) == wanted, "no step of each node")
        done = apply(pyxis_options={"use_enroot_load": True}, pyxis_container_scope="no-scope")
        assert done.returncode != 0
        for node in sandbox.compute:
            state, _, reason = sandbox.exec("ctl", f"sinfo -h -n {node} -o '%t|%E'").stdout.strip().partition("|")
            assert (state[:4], reason) == ("drai", drained)
        assert "No reservations" in sandbox.exec("ctl", "scontrol show reservation").stdout
    finally:
        sandbox.exec("ctl", f"scontrol update nodename={nodes} state=resume")
        sandbox.wait_idle()


def test_validation_jobs_keep_their_variables_and_report_missing_containers(sandbox: Cluster, apply: Apply) -> None:
    """The image's variables would give each rail the same NIC: the job's values apply, or an error is reported."""
    assert apply().returncode == 0
    image = "/shared/busbar-test-image"
    sandbox.exec("ctl", f"printf 'NCCL_IB_HCA=mlx5_9\\nNCCL_DEBUG=WARN\\n' >{image}; chmod 0644 {image}")
    step = f"srun --quiet -N1 --mem=100 --container-image={image} --container-name=a:no_exec"
    seen = f"export NCCL_IB_HCA==mlx5_0 NCCL_DEBUG=INFO; {step} {{}} printenv NCCL_IB_HCA NCCL_DEBUG"
    assert sandbox.exec("login", seen.format(""), user="alice").stdout.split() == ["mlx5_9", "WARN"]
    named = seen.format("--container-env=NCCL_IB_HCA,NCCL_DEBUG")
    assert sandbox.exec("login", named, user="alice").stdout.split() == ["=mlx5_0", "INFO"]
    sandbox.exec("ctl", f"rm {image}")
    gone = sandbox.exec("login", named, user="alice", check=False)
    assert gone.returncode != 0
    said = f"container: No such file or directory: {image}"
    assert container_fault(gone.stderr) in {f"{node}: {said}" for node in sandbox.compute}


def test_validation_runs_in_containers_and_reports_errors(sandbox: Cluster, apply: Apply) -> None:
    """Like Enroot, the simulation starts the login shell of the account that runs the job."""
    assert apply().returncode == 0
    image, who = "/shared/busbar-test-image", "busbar-validation"
    sandbox.exec("ctl", f"printf 'OF_THE_IMAGE=1\\n' >{image}; chmod 0644 {image}")
    asked = {
        "validation_stages": ["gemm"],
        "validation_gemm_image": image,
        "validation_gemm_seconds": 1,
        "__validation_gemm_size": 64,
        "validation_gemm_tflops": 1e-9,
        "validation_gemm_memory_gbs": 1e-6,
    }
    try:
        sandbox.wait_idle()
        done, report = validate(sandbox, "-t", "validation_install", "-e", json.dumps(asked))
        assert done.returncode == 0, done.stdout
        assert report["verdict"] == "PASS", report
        for node in sandbox.compute:
            sandbox.exec(node, f"usermod -s /usr/sbin/nologin {who}")
        sandbox.wait_idle()
        done, report = validate(sandbox, "-e", json.dumps(asked))
        assert (done.returncode, report["verdict"]) == (2, "INCONCLUSIVE"), report
        assert "container: This account is currently not available." in report["reason"]
    finally:
        for node in sandbox.compute:
            sandbox.exec(node, f"usermod -s /bin/sh {who}")
        sandbox.exec("ctl", f"rm {image}")


def test_task_prolog_that_breaks_containers_is_refused_before_the_change(sandbox: Cluster) -> None:
    """Debian 13 has Slurm 24.11.5, whose TaskProlog needs slurmstepd and its libraries in the container."""
    before = sandbox.exec("ctl", "cat /etc/slurm/slurm.conf").stdout
    given = ("-e", "scratch_per_job=true pyxis_enabled=true")
    done = sandbox.playbook("slurm.yml", "--tags", "slurm_configure", *given)
    assert done.returncode == 2, done.stdout
    said = " ".join(done.stdout.split())
    for node in sandbox.compute:
        assert f"{node}: scratch_per_job: Slurm 24.11.5 cannot run a TaskProlog in Pyxis containers" in said
    assert "slurm_private_tmp" in said
    assert sandbox.exec("ctl", "cat /etc/slurm/slurm.conf").stdout == before


def test_archive_without_a_checksum_is_refused(sandbox: Cluster, apply: Apply) -> None:
    done = apply("--limit", sandbox.compute[0], pyxis_sha256="")
    assert done.returncode != 0
    assert "pyxis_sha256 is not set" in " ".join(done.stdout.split())
    assert recap(done.stdout)[sandbox.compute[0]]["changed"] == 0
