"""Tests of the role firewall: open and closed ports, from outside, from other nodes and for users."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from busbar.sandbox.state import load
from conftest import recap
from prometheus_api import Prometheus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("firewall")

# Prints which of the given ADDRESS:PORT answer. A refused connection counts as an answer; a firewall drops packets.
SCAN = """
import asyncio, sys
async def look(text):
    address, port = text.rsplit(":", 1)
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(address, int(port)), 2)
    except ConnectionRefusedError:
        return text + " refused"
    except (OSError, asyncio.TimeoutError):
        return None
    writer.close()
    return text + " open"
async def main():
    for said in await asyncio.gather(*map(look, sys.argv[1:])):
        if said: print(said)
asyncio.run(main())
"""
# Two tasks of a job connect on the usual port of torchrun.
MEET = """
import os, socket, sys, time
if os.environ["SLURM_PROCID"] == "0":
    server = socket.create_server(("", 29500))
    server.settimeout(30)
    server.accept()
    print("met")
else:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            socket.create_connection((sys.argv[1], 29500), 2)
        except OSError:
            time.sleep(0.1)
        else:
            print("reached")
            break
"""
# The declared rules, repeated by hand: from where each port of a host is open.
OUTSIDE = {"login": {22}}
FROM_A_NODE = {
    "ctl": {22, 6817, 6819},
    "login": {22, 6818},
    "gpu1": {22, 6818},
    "gpu2": {22, 6818},
}


def on(gateway: str) -> list[str]:
    options = {"firewall_enabled": True, "firewall_admin_networks": [gateway]}
    return ["--tags", "firewall", "-e", json.dumps(options)]


@pytest.fixture(scope="module")
def gateway(sandbox: Cluster) -> str:
    """Return the source of runs: this machine's address in the network of the sandbox."""
    return sandbox.exec("ctl", "ip -4 route show default | cut -d' ' -f3").stdout.strip()


@pytest.fixture(scope="module")
def addresses(sandbox: Cluster) -> dict[str, str]:
    """Return the address of each node."""
    known = load(sandbox.name)
    return {node: known.address(node) for node in known.nodes}


@pytest.fixture(scope="module")
def stranger(gateway: str) -> Iterator[list[str]]:
    """Create a machine next to the cluster that belongs to nobody; yields the prefix of commands that run on it."""
    route = json.loads(subprocess.check_output(["ip", "-j", "-4", "addr", "show", "to", gateway], text=True))
    bridge, length = route[0]["ifname"], route[0]["addr_info"][0]["prefixlen"]
    address = gateway.rsplit(".", 1)[0] + ".250"
    # Another sandbox's tests may run on this machine at the same time.
    name = f"{bridge}-out"
    enter = ["ip", "netns", "exec", name]
    with contextlib.ExitStack() as stack:
        for command, undo in (
            (f"ip netns add {name}", f"ip netns del {name}"),
            (f"ip link add {name} master {bridge} type veth peer name eth0 netns {name}", ""),
            (f"ip link set {name} up", ""),
            (f"ip -n {name} addr add {address}/{length} dev eth0", ""),
            (f"ip -n {name} link set eth0 up", ""),
        ):
            subprocess.run(command.split(), check=True)
            if undo:
                stack.callback(subprocess.run, undo.split(), check=False)
        yield enter


@pytest.fixture(scope="module")
def closed(sandbox: Cluster, gateway: str) -> Iterator[Cluster]:
    """Return the cluster with the firewall enabled; it is disabled again at the end."""
    done = sandbox.playbook("base.yml", *on(gateway))
    assert done.returncode == 0, done.stdout + done.stderr
    yield sandbox
    done = sandbox.playbook("base.yml", "--tags", "firewall")
    assert done.returncode == 0, done.stdout + done.stderr
    for node in ("ctl", "login", *sandbox.compute):
        left = sandbox.exec(node, "nft list tables; ls /etc/busbar/firewall.nft", check=False).stdout
        assert "busbar" not in left, node


def listening(sandbox: Cluster, node: str) -> set[int]:
    """Return the ports of a node that listen for other hosts."""
    found = sandbox.exec(node, "ss -Htln | awk '{print $4}'").stdout.split()
    return {int(text.rsplit(":", 1)[1]) for text in found if not text.startswith(("127.", "[::1]"))}


def answered(output: str, addresses: dict[str, str]) -> dict[str, set[int]]:
    """Return the ports that answered a scan, by node."""
    names = {address: name for name, address in addresses.items()}
    found: dict[str, set[int]] = {}
    for line in output.splitlines():
        address, _, port = line.split()[0].rpartition(":")
        found.setdefault(names[address], set()).add(int(port))
    return found


def targets(sandbox: Cluster, addresses: dict[str, str]) -> list[str]:
    """Return all listening ports and two closed ports of each node, which a firewalled host does not even refuse."""
    return [f"{addresses[node]}:{port}" for node in addresses for port in sorted(listening(sandbox, node) | {79, 8088})]


def test_outside_machine_reaches_exporters_without_the_firewall(
    sandbox: Cluster, stranger: list[str], addresses: dict[str, str]
) -> None:
    """The control of the following tests: the scan finds open ports."""
    done = subprocess.check_output([*stranger, "python3", "-c", SCAN, *targets(sandbox, addresses)], text=True)
    seen = answered(done, addresses)
    assert all({22, 79, 8088, 9100} <= seen[node] for node in addresses)
    assert 6817 in seen["ctl"]


def test_run_from_an_address_that_would_be_blocked_is_refused(sandbox: Cluster, gateway: str) -> None:
    options = json.dumps({"firewall_enabled": True})
    done = sandbox.playbook("base.yml", "--tags", "firewall", "-e", options)
    assert done.returncode != 0
    assert f"lacks {gateway}, the source of this run, which the rules would block" in done.stdout + done.stderr
    assert {host: counts["changed"] for host, counts in recap(done.stdout).items() if counts["changed"]} == {}


@pytest.mark.core
def test_only_user_facing_ports_are_open_from_outside(
    closed: Cluster, stranger: list[str], addresses: dict[str, str]
) -> None:
    done = subprocess.check_output([*stranger, "python3", "-c", SCAN, *targets(closed, addresses)], text=True)
    assert answered(done, addresses) == OUTSIDE


@pytest.mark.parametrize(("node", "user"), [("login", "alice"), ("gpu1", None)])
def test_nodes_reach_only_declared_ports(
    closed: Cluster, addresses: dict[str, str], node: str, user: str | None
) -> None:
    others = {name: address for name, address in addresses.items() if name != node}
    low = [text for text in targets(closed, others) if int(text.rsplit(":", 1)[1]) < 10000]
    done = closed.exec(node, f"python3 - {' '.join(low)} <<'END'\n{SCAN}\nEND", user=user)
    assert answered(done.stdout, addresses) == {name: FROM_A_NODE[name] for name in others}


def test_prometheus_still_scrapes_every_node(closed: Cluster, addresses: dict[str, str]) -> None:
    begin, prometheus = time.time(), Prometheus(closed.name)

    def read() -> set[str]:
        found = prometheus.query(f'up{{job="node"}} == 1 and timestamp(up{{job="node"}}) > {begin}')
        return {labels["instance"].split(":")[0] for labels, _ in found}

    closed.wait_until(lambda: read() in (set(addresses), set(addresses.values())), "Prometheus misses a node")


@pytest.mark.core
def test_multi_node_jobs_run_and_return_their_output(closed: Cluster) -> None:
    done = closed.exec("login", "srun -N2 --ntasks-per-node=1 hostname", user="alice")
    assert sorted(done.stdout.split()) == closed.compute[:2]
    first = closed.compute[0]
    done = closed.exec("login", f"srun -N2 --ntasks-per-node=1 python3 - {first} <<'END'\n{MEET}\nEND", user="alice")
    assert sorted(done.stdout.split()) == ["met", "reached"]


def test_second_run_changes_nothing_and_lost_rules_are_restored(closed: Cluster, gateway: str) -> None:
    again = closed.playbook("base.yml", *on(gateway))
    assert again.returncode == 0, again.stdout + again.stderr
    assert {host: counts["changed"] for host, counts in recap(again.stdout).items() if counts["changed"]} == {}
    closed.exec("gpu1", "nft flush ruleset")
    healed = closed.playbook("base.yml", *on(gateway))
    assert healed.returncode == 0, healed.stdout + healed.stderr
    assert {host for host, counts in recap(healed.stdout).items() if counts["changed"]} == {"gpu1"}
    assert "policy drop" in closed.exec("gpu1", "nft list chain inet busbar input").stdout
    assert closed.exec("gpu1", "systemctl is-enabled busbar-firewall").stdout.strip() == "enabled"


def test_host_reverts_rules_that_block_ssh(closed: Cluster, gateway: str) -> None:
    """The firewall opens a different port than the one on which sshd of gpu2 listens."""
    options = json.dumps({"firewall_enabled": True, "firewall_admin_networks": [gateway], "ssh_port": 2222})
    before = closed.exec("gpu2", "nft list chain inet busbar input").stdout
    done = closed.playbook("base.yml", "--tags", "firewall", "--limit", "gpu2", "-e", options)
    assert done.returncode != 0
    assert "restores its previous settings" in done.stdout + done.stderr
    closed.wait_until(
        lambda: closed.exec("gpu2", "nft list chain inet busbar input", check=False).stdout == before,
        "the former rules do not come back",
        timeout=240,
    )
    reached = closed.playbook("base.yml", *on(gateway))
    assert reached.returncode == 0, reached.stdout + reached.stderr
