"""Tests of Slurm's topology from data of the nodes: real lldpd on both ends of a cable, GPUs without NVLink domain."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("slurm")

SWITCH = "login"
QUIETLY = "DEBIAN_FRONTEND=noninteractive apt-get -q -y"


def topology(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    return cluster.busbar("inventory", "topology", *arguments, "--name", cluster.name, timeout=300)


@pytest.fixture(scope="module")
def cabled(sandbox: Cluster) -> Iterator[Cluster]:
    """Connect rail0 of two nodes to a machine named leaf1 that announces port names, like a switch."""
    nodes = sandbox.compute[:2]
    links: list[tuple[str, str]] = []

    def pid(node: str) -> str:
        inside = ["podman", "inspect", "--format", "{{.State.Pid}}", sandbox.container(node)]
        return subprocess.run(inside, check=True, capture_output=True, text=True).stdout.strip()

    def inside(node: str, words: str) -> None:
        subprocess.run(["nsenter", f"--target={pid(node)}", "--net", "ip", *words.split()], check=True)

    try:
        for node in (SWITCH, *nodes):
            sandbox.exec(node, f"{QUIETLY} install --no-install-recommends lldpd", timeout=300)
        for port, node in enumerate(nodes, 1):
            inside(node, f"link add rail0 type veth peer name swp{port} netns {pid(SWITCH)}")
            links.append((node, "rail0"))
            inside(node, "link set rail0 up")
            inside(SWITCH, f"link set swp{port} up")
        for words in ("configure lldp portidsubtype ifname", "configure system hostname leaf1.site", "update"):
            sandbox.exec(SWITCH, f"lldpcli {words}")
        for node in nodes:
            sandbox.wait_until(
                lambda node=node: "leaf1.site" in sandbox.exec(node, "lldpctl -f json rail0").stdout,  # type: ignore[misc]
                f"{node} does not hear leaf1",
            )
        yield sandbox
    finally:
        for node, link in links:
            inside(node, f"link del {link}")
        for node in (SWITCH, *nodes):
            sandbox.exec(node, f"{QUIETLY} purge lldpd && {QUIETLY} autoremove --purge", check=False, timeout=300)


def test_nodes_on_one_switch_are_grouped(cabled: Cluster) -> None:
    folded = f"gpu[1-{len(cabled.compute[:2])}]"
    done = topology(cabled, "--from", "lldp", folded)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"slurm_topology:\n  switches:\n  - name: leaf1\n    nodes: {folded}\n"
    done = cabled.playbook("describe.yml", "--tags", "topology", "--limit", "gpu1", "--check")
    assert done.returncode == 0, done.stdout
    assert "nodes: gpu1" in done.stdout
    assert "changed=0" in done.stdout


def test_unplaceable_node_is_reported_and_nothing_is_printed(cabled: Cluster) -> None:
    for arguments, words in (
        (["--from", "lldp", "gpu1", "gpu99"], "gpu99 is not in the inventory"),
        (["--from", "lldp", "gpu1", "ctl"], "ctl: `lldpctl -f json0` printed no JSON: install and start lldpd"),
        (
            ["--from", "lldp", "gpu1", "--interfaces", "ib*"],
            "gpu1 receives no LLDP from a switch at ib*: start lldpd there",
        ),
        (["--from", "nvlink", "gpu[1-2]"], "the GPUs of gpu[1-2] report no ClusterUUID"),
    ):
        done = topology(cabled, *arguments)
        assert (done.returncode, done.stdout) == (2, ""), done.stdout + done.stderr
        assert f"busbar: {words}" in done.stderr
