"""Tests of RDMA on a node without RDMA hardware: packages work, limits apply to jobs, missing parts are reported."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from conftest import recap

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Cluster

    Apply = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.proves("rdma", "gpudirect")

NODE = "gpu1"
PLAY = [
    {
        "hosts": NODE,
        "become": True,
        "gather_facts": True,
        "roles": [{"role": f"busbar.cluster.{name}", "tags": [name]} for name in ("rdma", "gpudirect")],
    },
]
DECLARED = {
    "rdma_nics": [{"count": 2, "gbps": 400, "rdma": True}],
    "rdma_kernel_managed": "always",
    "rdma_interface_names": {"0000:1a:00.0": "ib0"},
    "rdma_names": {"0000:1a:00.0": "rail0"},
}
PROGRAMS = ["ibstat", "ibv_devinfo", "ib_write_bw", "rping", "sminfo"]
FILES = [
    "/etc/modules-load.d/busbar-rdma.conf",
    "/etc/systemd/network/10-busbar-rdma-ib0.link",
    "/etc/systemd/system/slurmd.service.d/busbar-rdma.conf",
    "/etc/udev/rules.d/60-rdma-persistent-naming.rules",
]


def packages(sandbox: Cluster) -> set[str]:
    """Return the packages of the node."""
    return set(sandbox.exec(NODE, "dpkg-query -W -f '${Package}\\n'").stdout.split())


@pytest.fixture(scope="module")
def apply(sandbox: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apply]:
    """Return a function that runs the role with options; packages and files of the node are restored at the end."""
    playbook: Path = tmp_path_factory.mktemp("rdma") / "rdma.yml"
    playbook.write_text(json.dumps(PLAY))
    sandbox.wait_idle()
    before = packages(sandbox)

    def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:  # noqa: ANN401 - options of any kind
        return sandbox.playbook(str(playbook), "-e", json.dumps(options), *arguments)

    yield run
    added = " ".join(sorted(packages(sandbox) - before))
    if added:
        sandbox.exec(NODE, f"DEBIAN_FRONTEND=noninteractive apt-get -qy purge {added}", timeout=180)
    sandbox.exec(NODE, f"rm -f {' '.join(FILES)} && systemctl daemon-reload && systemctl restart slurmd")
    assert packages(sandbox) == before
    sandbox.wait_idle()


@pytest.fixture(scope="module")
def applied(apply: Apply) -> str:
    """Return the output of the role's first run."""
    done = apply(**DECLARED)
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_node_without_declared_rdma_is_left_alone(apply: Apply, sandbox: Cluster) -> None:
    done = apply("--check", "--tags", "rdma")
    assert "included:" not in done.stdout, "more than the checks of the options"
    assert done.returncode == recap(done.stdout)[NODE]["changed"] == 0
    assert sandbox.exec(NODE, "command -v ibv_devices", check=False).returncode


def test_missing_and_skipped_parts_are_reported(applied: str) -> None:
    said = " ".join(applied.split())
    assert "gpu1: RDMA NICs: 2 x 400 Gb/s declared, but 0 active at that rate" in said
    assert "the host is a container (podman): kernel modules and interfaces are not configured" in said


@pytest.mark.usefixtures("applied")
def test_programs_of_the_distribution_run(sandbox: Cluster) -> None:
    """The libraries themselves report a kernel without RDMA."""
    asked = sandbox.exec(NODE, "ibv_devices", check=False)
    assert "node GUID" in asked.stdout or "Function not implemented" in asked.stderr
    assert "Version" in sandbox.exec(NODE, "ib_write_bw --version", check=False).stdout
    assert len(sandbox.exec(NODE, f"command -v {' '.join(PROGRAMS)}").stdout.split()) == len(PROGRAMS)


@pytest.mark.usefixtures("applied")
def test_files_match_the_options(sandbox: Cluster) -> None:
    modules, link, unit, rules = (sandbox.exec(NODE, f"cat {path}").stdout for path in FILES)
    assert modules.split("#\n")[-1].split() == ["ib_umad", "ib_ipoib", "rdma_ucm"]
    assert "Path=pci-0000:1a:00.0" in link
    assert "LimitMEMLOCK=infinity" in unit
    assert 'KERNELS=="0000:1a:00.0", ENV{BUSBAR_NAME}="rail0"' in rules
    shown = sandbox.exec(NODE, "systemctl show slurmd -p LimitMEMLOCK -p DropInPaths").stdout
    assert "LimitMEMLOCK=infinity" in shown
    assert "busbar-rdma.conf" in shown


@pytest.mark.core
@pytest.mark.usefixtures("applied")
def test_jobs_may_lock_as_much_memory_as_the_machine_allows(sandbox: Cluster) -> None:
    """Unlimited if root may raise limits; otherwise the limit of the first process."""
    sandbox.wait_idle()
    limits = sandbox.exec(NODE, "cat /proc/1/limits /proc/self/status").stdout.splitlines()
    hard = next(line.split()[4] for line in limits if line.startswith("Max locked memory"))
    raises = int(next(line.split()[1] for line in limits if line.startswith("CapEff")), 16) >> 24 & 1
    expected = "unlimited" if raises or hard == "unlimited" else str(int(hard) // 1024)
    job = sandbox.exec("login", f"srun --quiet -w {NODE} --mem=50 bash -c 'ulimit -l'", user="alice")
    assert job.stdout.strip() == expected


@pytest.mark.usefixtures("applied")
@pytest.mark.parametrize("arguments", [(), ("--check", "--diff")])
def test_second_run_changes_nothing(apply: Apply, arguments: tuple[str, ...]) -> None:
    done = apply(*arguments, **DECLARED)
    assert done.returncode == 0, done.stdout
    assert recap(done.stdout)[NODE]["changed"] == 0, done.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rdma_verify": "fail"}, "gpu1: RDMA NICs: 2 x 400 Gb/s declared, but 0 active at that rate"),
        (
            {"rdma_ipoib_interfaces": [{"name": "ib0", "address": "10.199.0.1/16"}]},
            "rdma_ipoib_interfaces: 10.199.0.1 is declared more than once",
        ),
        (
            {"rdma_ipoib_interfaces": [{"name": "ib0", "address": "{{ ansible_host }}/24"}], "__rdma_hosts": []},
            "of eth0, the management network",
        ),
    ],
)
@pytest.mark.usefixtures("applied")
def test_invalid_options_are_refused_with_their_names(apply: Apply, options: dict[str, Any], said: str) -> None:
    done = apply(**DECLARED | options)
    assert done.returncode != 0
    assert said in " ".join(done.stdout.split())
    assert recap(done.stdout)[NODE]["changed"] == 0


@pytest.mark.core
def test_gpudirect_method_is_reported_with_its_reason(apply: Apply) -> None:
    hardware = {"gpu": {"count": 2}, "nics": [{"count": 2, "gbps": 400, "rdma": True}]}
    done = apply("--tags", "gpudirect", __gpudirect_hardware=hardware)
    assert done.returncode == recap(done.stdout)[NODE]["changed"] == 0
    said = " ".join(done.stdout.split())
    assert "gpu1: undecided: no driver is loaded or installed" in said
    assert "the host is a container (podman): kernel modules are not loaded" in said
    done = apply("--tags", "gpudirect", __gpudirect_hardware=hardware, gpudirect_mode="peermem")
    assert done.returncode != 0
    assert "value of gpudirect_mode must be one of" in " ".join(done.stdout.split())
