"""Tests of NVIDIA's programs from the distribution's non-free section, really installed on a node and removed again.

The CUDA toolkit is not tested: 92 packages of 1.9 GB, 5.1 GB on disk (Debian 13), while NCCL's 228 MB suffice.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from conftest import as_json, recap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Cluster

pytestmark = pytest.mark.proves("nvidia_driver")

NODE = "gpu1"
WANTED = ["nvidia-smi", "libnvidia-ml1", "nvidia-persistenced", "libnccl2", "libnccl-dev"]
PLAY = [
    {
        "hosts": NODE,
        "become": True,
        "gather_facts": False,
        "tasks": [
            {
                "name": "Add the components of the distribution",
                "ansible.builtin.import_role": {
                    "name": "busbar.cluster.nvidia_repository",
                    "tasks_from": "distribution",
                },
            },
            {
                "name": "Install packages",
                "busbar.cluster.packages": {"name": WANTED, "start_services": False},
            },
        ],
    },
]
SOURCES = "/etc/apt/sources.list.d/busbar-components.sources"
# Queries the libraries through their own API. NVML returns 9 if no driver is loaded.
ASK = """
import ctypes, json
nvml = ctypes.CDLL("libnvidia-ml.so.1")
nccl, number = ctypes.CDLL("libnccl.so.2"), ctypes.c_int()
print(json.dumps([nvml.nvmlInit_v2(), nccl.ncclGetVersion(ctypes.byref(number)), number.value]))
"""


@pytest.fixture(scope="module")
def install(sandbox: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., dict[str, int]]]:
    """Return a function that installs the packages; packages and simulated GPUs of the node are restored at the end."""
    playbook: Path = tmp_path_factory.mktemp("nvidia") / "distribution.yml"
    playbook.write_text(json.dumps(PLAY))
    listing = "dpkg-query -W -f '${Package}\\n'"
    before = set(sandbox.exec(NODE, listing).stdout.split())

    def run(*arguments: str) -> dict[str, int]:
        done = sandbox.playbook(str(playbook), *arguments)
        assert done.returncode == 0, done.stdout
        return recap(done.stdout)[NODE]

    yield run
    added = " ".join(sorted(set(sandbox.exec(NODE, listing).stdout.split()) - before))
    lists = "rm -f /var/lib/apt/lists/*_contrib_* /var/lib/apt/lists/*_non-free*"
    sandbox.exec(NODE, f"DEBIAN_FRONTEND=noninteractive apt-get -qy purge {added}", timeout=180)
    sandbox.exec(NODE, f"rm -f {SOURCES} /var/cache/apt/archives/*.deb && {lists} && systemctl daemon-reload")
    assert set(sandbox.exec(NODE, listing).stdout.split()) == before
    assert not sandbox.exec(NODE, "systemctl --failed --plain --no-legend").stdout
    assert sandbox.exec(NODE, "nvidia-smi -L").returncode == 0
    sandbox.wait_idle()


@pytest.fixture(scope="module")
def installed(install: Callable[..., dict[str, int]]) -> dict[str, int]:
    """Return the result of the first run."""
    return install()


def test_all_packages_come_from_non_free(installed: dict[str, int], sandbox: Cluster) -> None:
    assert installed["changed"] == 2
    shown = sandbox.exec(NODE, f"dpkg-query -W -f '${{db:Status-Status}} ${{Section}}\\n' {' '.join(WANTED)}").stdout
    states = [line.split() for line in shown.splitlines()]
    assert {status for status, _ in states} == {"installed"}
    assert {section.partition("/")[0] for _, section in states} <= {"contrib", "non-free"}


@pytest.mark.usefixtures("installed")
def test_libraries_answer(sandbox: Cluster) -> None:
    nvml, status, version = as_json(sandbox.exec(NODE, f"python3 -c '{ASK}'").stdout)
    assert nvml == 9
    assert status == 0
    header = sandbox.exec(NODE, "grep -oP 'define NCCL_VERSION_CODE \\K\\d+' /usr/include/nccl.h").stdout
    assert version == int(header) >= 20000


@pytest.mark.usefixtures("installed")
def test_programs_run_and_the_simulated_one_takes_precedence(sandbox: Cluster) -> None:
    real = sandbox.exec(NODE, "/usr/bin/nvidia-smi", check=False)
    assert real.returncode
    assert "communicate with the NVIDIA driver" in real.stdout
    assert "nvidia-persistenced" in sandbox.exec(NODE, "nvidia-persistenced --version").stdout
    assert sandbox.exec(NODE, "command -v nvidia-smi").stdout.strip() == "/usr/local/bin/nvidia-smi"
    assert "Simulated" in sandbox.exec(NODE, "nvidia-smi -L").stdout


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("arguments", [(), ("--check", "--diff")])
def test_second_run_changes_nothing(install: Callable[..., dict[str, int]], arguments: tuple[str, ...]) -> None:
    assert install(*arguments)["changed"] == 0
