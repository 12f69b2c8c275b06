"""Injects real faults into a sandbox and undoes them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from busbar.errors import UsageError
from busbar.sandbox import host
from busbar.sandbox.cluster import boot, containers

if TYPE_CHECKING:
    from collections.abc import Callable

    from busbar.sandbox.state import Sandbox

_RATE = re.compile(r"(\d+(?:\.\d+)?)(k|m|g)bit", re.IGNORECASE)
_SCALE = {"k": 1e3, "m": 1e6, "g": 1e9}
SMALLEST_BURST = 32 * 1024
# tc refills its token bucket once per kernel tick, so a bucket smaller than the bytes per tick cannot reach the rate.
TICKS_PER_SECOND = 250
LATENCY_MS = 50


def parse_rate(text: str) -> int:
    """Return a link rate such as `1gbit` or `100mbit` in bits per second.

    Raises:
        UsageError: the text is not a positive number with kbit, mbit or gbit.
    """
    match = _RATE.fullmatch(text.strip())
    rate = int(float(match[1]) * _SCALE[match[2].lower()]) if match else 0
    if rate <= 0:
        msg = f"rate {text!r}: use a number with kbit, mbit or gbit, such as 1gbit or 100mbit"
        raise UsageError(msg)
    return rate


def throttle(sandbox: Sandbox, node: str, rate: str) -> None:
    """Limit a node's link to `rate` in both directions.

    Raises:
        UsageError: the rate is malformed, or the node is not running.
    """
    bits = parse_rate(rate)
    burst = max(SMALLEST_BURST, 2 * bits // 8 // TICKS_PER_SECOND)
    shape = ["root", "tbf", "rate", f"{bits}bit", "burst", str(burst), "latency", f"{LATENCY_MS}ms"]
    inside, outside = link_ends(sandbox, node)
    host.run(*inside, "qdisc", "replace", "dev", "eth0", *shape)
    host.run("tc", "qdisc", "replace", "dev", outside, *shape)
    remember(sandbox, kind="throttle", node=node, detail=rate)


def stop(sandbox: Sandbox, node: str, service: str) -> None:
    """Stop a service on a node.

    Raises:
        UsageError: the node is not running or has no such service.
    """
    container = running(sandbox, node)
    known = host.podman("exec", container, "systemctl", "cat", service, check=False)
    if known.returncode:
        msg = (
            f"node {node} has no service {service!r}; list services: busbar sandbox exec {node} -- systemctl list-units"
        )
        raise UsageError(msg)
    host.podman("exec", container, "systemctl", "stop", service)
    remember(sandbox, kind="stop", node=node, detail=service)


def pull(sandbox: Sandbox, node: str) -> None:
    """Kill a node immediately, as in a power failure."""
    container = running(sandbox, node)
    host.podman("kill", "--signal", "KILL", container)
    host.podman("wait", container)
    remember(sandbox, kind="pull", node=node, detail="")


def heal(sandbox: Sandbox, say: Callable[[str], None]) -> None:
    """Undo all active faults in reverse order."""
    while sandbox.faults:
        fault = sandbox.faults[-1]
        cure(sandbox, fault)
        sandbox.faults.pop()
        sandbox.save()
        say(f"healed: {' '.join(value for value in (fault['kind'], fault['node'], fault['detail']) if value)}")


def cure(sandbox: Sandbox, fault: dict[str, str]) -> None:
    """Undo one fault."""
    node = fault["node"]
    if node not in sandbox.nodes:
        return
    is_up = containers(sandbox.name).get(sandbox.container(node)) == "running"
    if fault["kind"] == "pull" and not is_up:
        boot(sandbox, node)
    if fault["kind"] == "stop" and is_up:
        host.podman("exec", sandbox.container(node), "systemctl", "start", fault["detail"])
    if fault["kind"] == "throttle" and is_up:
        inside, outside = link_ends(sandbox, node)
        # A restarted node has a new link without a limit.
        host.run(*inside, "qdisc", "del", "dev", "eth0", "root", check=False)
        host.run("tc", "qdisc", "del", "dev", outside, "root", check=False)


def remember(sandbox: Sandbox, **fault: str) -> None:
    """Record a fault for `heal`, unless it is already recorded."""
    if fault not in sandbox.faults:
        sandbox.faults.append(fault)
    sandbox.save()


def running(sandbox: Sandbox, node: str) -> str:
    """Return the container of a running node.

    Raises:
        UsageError: the node is not running.
    """
    container = sandbox.container(node)
    state = containers(sandbox.name).get(container, "missing")
    if state != "running":
        msg = f"node {node} of sandbox {sandbox.name} is {state}; busbar sandbox fault --name {sandbox.name} heal"
        raise UsageError(msg)
    return container


def link_ends(sandbox: Sandbox, node: str) -> tuple[list[str], str]:
    """Return the prefix of a `tc` command inside the node's network namespace, and the host's interface of its link.

    Raises:
        UsageError: the node is not running, or its link cannot be found.
    """
    container = running(sandbox, node)
    pid = host.podman("inspect", "--format", "{{.State.Pid}}", container).stdout.strip()
    enter = ["nsenter", f"--target={pid}", "--net"]
    inner = json.loads(host.run(*enter, "ip", "-json", "link", "show", "eth0").stdout)
    outer = json.loads(host.run("ip", "-json", "link").stdout)
    for link in outer:
        if link["ifindex"] == inner[0].get("link_index"):
            return [*enter, "tc"], str(link["ifname"])
    msg = f"node {node}: the host side of its link was not found"
    raise UsageError(msg)
