"""Creates, inspects and removes the containers of a sandbox."""

from __future__ import annotations

import concurrent.futures
import contextlib
import hashlib
import ipaddress
import json
import re
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from busbar.errors import UsageError
from busbar.sandbox import host, image, inventory
from busbar.sandbox.recording import gpu_recording
from busbar.sandbox.state import LABEL, SHARED, STATE, Sandbox, sandbox_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

BOOT_TIMEOUT_S = 90
REMOVAL_ATTEMPTS = 5
NVIDIA_MAJOR = 195
_T = TypeVar("_T")
FILES = Path(__file__).resolve().parent / "files"


def up(sandbox: Sandbox, say: Callable[[str], None], *, rebuild: bool = False) -> None:
    """Bring the sandbox to the requested state; existing nodes stay unchanged.

    Raises:
        UsageError: the host lacks a prerequisite, or a node does not boot.
    """
    host.check_host()
    began = time.monotonic()
    present = containers(sandbox.name)
    host.check_disk(sum(sandbox.container(node) not in present for node in sandbox.nodes))
    bare, built = image.ensure_image(sandbox.distribution, sandbox.image, rebuild=rebuild)
    if built:
        say(f"image of {sandbox.image or sandbox.distribution} built in {time.monotonic() - began:.0f} s")
    remove_strangers(sandbox)
    running = [name for name, state in containers(sandbox.name).items() if state == "running"]
    host.check_watchers(len(sandbox.nodes) - len(running))
    ensure_network(sandbox)
    sandbox.save()
    public_key = ensure_key(sandbox)
    ensure_shared(sandbox)
    present = containers(sandbox.name)
    missing = [node for node in sandbox.nodes if sandbox.container(node) not in present]
    in_parallel(lambda node: create(sandbox, node, bare, public_key), missing)
    # Check all nodes, because a killed run may have left a running node that has not finished booting.
    in_parallel(lambda node: boot(sandbox, node), sandbox.nodes)
    write_known_hosts(sandbox)
    inventory.write_inventory(sandbox, public_key, say)
    say(f"sandbox {sandbox.name}: {', '.join(sandbox.nodes)} up in {time.monotonic() - began:.0f} s")


def down(name: str, *, purge: bool = False) -> bool:
    """Remove the containers, network and state folder of a complete or partial sandbox.

    Returns:
        whether anything existed.

    Raises:
        UsageError: podman could not remove something, or a file system is mounted below the state folder.
    """
    refuse_mounts(sandbox_path(name))
    found = [*containers(name), *leftover_storage(name)]
    remove(found)
    network = f"busbar-{name}"
    has_network = host.podman("network", "exists", network, check=False).returncode == 0
    if has_network:
        host.podman("network", "rm", network)
    path = sandbox_path(name)
    had_state = path.exists()
    shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):
        path.parent.rmdir()
    if purge:
        listed = host.podman("images", "--quiet", "--no-trunc", "--filter", f"reference={image.REPOSITORY}")
        for identity in sorted(set(listed.stdout.split())):
            host.podman("rmi", "--force", identity)
    return bool(found) or has_network or had_state


def refuse_mounts(folder: Path, table: str | None = None) -> None:
    """Refuse to remove a folder with a file system mounted below it, because the removal would empty that file system.

    Args:
        folder: the folder to remove.
        table: contents of /proc/self/mountinfo; by default the current ones.

    Raises:
        UsageError: names the mounts.
    """
    text = Path("/proc/self/mountinfo").read_text(encoding="utf-8") if table is None else table
    fields = [line.split() for line in text.splitlines()]
    points = [Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), item[4])) for item in fields]
    found = [str(point) for point in points if point.is_relative_to(folder.resolve())]
    if found:
        msg = f"{', '.join(found)}: is a mount point whose content would be deleted; unmount it first"
        raise UsageError(msg)


def containers(name: str) -> dict[str, str]:
    """Return the state (running, exited, created, …) of each container with the sandbox's label."""
    listed = host.podman("ps", "--all", "--filter", f"label={LABEL}={name}", "--format", "json")
    return {item["Names"][0]: item["State"] for item in json.loads(listed.stdout or "[]")}


def leftover_storage(name: str) -> list[str]:
    """Return names that podman still reserves for partially created containers, which have no label."""
    pattern = re.compile(rf"busbar-{re.escape(name)}-(ctl2?|db\d|login|gpu\d+)")
    listed = host.podman("ps", "--all", "--external", "--format", "{{.Names}}").stdout.split()
    return [found for found in listed if pattern.fullmatch(found) and found not in containers(name)]


def node_states(sandbox: Sandbox) -> list[dict[str, Any]]:
    """Return one entry per node: name, address, and state (running, exited, …, missing)."""
    present = containers(sandbox.name)
    return [
        {"node": node, "address": sandbox.address(node), "state": present.get(sandbox.container(node), "missing")}
        for node in sandbox.nodes
    ]


def remove_strangers(sandbox: Sandbox) -> None:
    """Remove containers with this sandbox's label that a killed or differently sized run left behind."""
    wanted = {sandbox.container(node) for node in sandbox.nodes}
    present = containers(sandbox.name)
    half_made = {name for name, state in present.items() if state in {"created", "initialized"}}
    strangers = (set(present) - wanted) | half_made
    if not sandbox.subnet:
        strangers = set(present)
    strangers |= set(leftover_storage(sandbox.name))
    remove(sorted(strangers))


def remove(names: list[str]) -> None:
    """Remove containers, with retries, because an interrupted start may hold mounts for a short time.

    Raises:
        UsageError: a container could not be removed.
    """
    for attempt in range(REMOVAL_ATTEMPTS):
        if not names:
            return
        last = attempt == REMOVAL_ATTEMPTS - 1
        if host.podman("rm", "--force", "--ignore", "--time=0", "--volumes", *names, check=last).returncode == 0:
            return
        time.sleep(1)


def ensure_network(sandbox: Sandbox) -> None:
    """Create the sandbox's network on a /24 that neither podman nor the host uses, unless it exists."""
    if host.podman("network", "exists", sandbox.network, check=False).returncode == 0:
        if sandbox.subnet:
            return
        host.podman("network", "rm", "--force", sandbox.network)
    taken = used_subnets()
    start = int(hashlib.sha256(sandbox.name.encode()).hexdigest(), 16)
    candidates = [f"10.209.{(start + offset) % 254 + 1}" for offset in range(254)]
    if sandbox.subnet:
        candidates = [sandbox.subnet]
    for subnet in candidates:
        network = ipaddress.ip_network(f"{subnet}.0/24")
        if any(network.overlaps(other) for other in taken):
            continue
        label = f"--label={LABEL}={sandbox.name}"
        command = ["network", "create", "--disable-dns", f"--subnet={network}", label, sandbox.network]
        if host.podman(*command, check=False).returncode == 0:
            sandbox.subnet = subnet
            return
    msg = f"sandbox {sandbox.name}: no free network; remove unused ones: podman network prune"
    raise UsageError(msg)


def used_subnets() -> list[ipaddress.IPv4Network]:
    """Return the IPv4 networks that the host routes or podman uses."""
    texts = [line.split()[0] for line in host.run("ip", "-4", "route", "show", "table", "all").stdout.splitlines()]
    listed = json.loads(host.podman("network", "ls", "--format", "json").stdout or "[]")
    texts += [subnet["subnet"] for entry in listed for subnet in entry.get("subnets") or []]
    networks = []
    for text in texts:
        with contextlib.suppress(ValueError):
            networks.append(ipaddress.IPv4Network(text, strict=False))
    return networks


def ensure_key(sandbox: Sandbox) -> str:
    """Return the sandbox's public SSH key; create the key pair at first use."""
    key = sandbox.path / "ssh" / "id_ed25519"
    if not key.exists():
        key.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        host.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"busbar-sandbox-{sandbox.name}", "-f", str(key))
    return key.with_name("id_ed25519.pub").read_text(encoding="utf-8").strip()


def ensure_shared(sandbox: Sandbox) -> None:
    """Create the shared folders: one for all nodes, writable for their users, and one for the controllers."""
    # Users of this machine have no access.
    sandbox.shared.parent.mkdir(mode=0o700, exist_ok=True)
    sandbox.controller_state.mkdir(mode=0o755, exist_ok=True)
    sandbox.shared.mkdir(exist_ok=True)
    sandbox.shared.chmod(0o1777)


def create(sandbox: Sandbox, node: str, bare: str, public_key: str = "", mac: str = "") -> None:
    """Create a node's container, with simulated GPUs on a compute node.

    Args:
        sandbox: the sandbox.
        node: name of the node.
        bare: the image to boot.
        public_key: authorized SSH key; empty for an image that contains one.
        mac: Ethernet address; generated if empty.
    """
    container = sandbox.container(node)
    has_state = len(sandbox.controller_nodes) > 1 and node in sandbox.controller_nodes
    host.podman(
        f"--runtime={host.choose_runtime()}",
        "create",
        f"--name={container}",
        f"--hostname={node}",
        f"--label={LABEL}={sandbox.name}",
        f"--network={sandbox.network}",
        f"--ip={sandbox.address(node)}",
        "--no-hosts",
        "--systemd=always",
        "--privileged",
        "--cgroupns=private",
        "--pids-limit=-1",
        "--stop-signal=SIGRTMIN+3",
        *([f"--env=ADMIN={image.ADMIN}", f"--env=ADMIN_KEY={public_key}"] if public_key else []),
        *([f"--mac-address={mac}"] if mac else []),
        f"--volume={sandbox.shared}:{SHARED}",
        *([f"--volume={sandbox.controller_state}:{STATE}"] if has_state else []),
        *host.ulimits(),
        bare,
        "/bin/sh",
        "-c",
        (FILES / "init").read_text(encoding="utf-8"),
    )
    if node in sandbox.compute_nodes and sandbox.gpus:
        lines = [f"c /dev/nvidia{index} 0666 root root - {NVIDIA_MAJOR}:{index}" for index in range(sandbox.gpus)]
        path = sandbox.path / f"{node}-simulated-gpus.conf"
        path.write_text("# Simulated GPUs: device nodes without a driver behind them.\n" + "\n".join(lines) + "\n")
        host.podman("cp", str(path), f"{container}:/etc/tmpfiles.d/simulated-gpus.conf")
        host.podman("cp", str(FILES / "nvidia-smi"), f"{container}:/usr/local/bin/nvidia-smi")
        host.podman("cp", str(FILES / "simulated-gpus"), f"{container}:/usr/local/lib/simulated-gpus")
        path.write_text(gpu_recording(node, sandbox.gpus), encoding="utf-8")
        host.podman("cp", str(path), f"{container}:/etc/simulated-gpus.xml")
        path.unlink()


def boot(sandbox: Sandbox, node: str) -> None:
    """Start a node and wait until systemd has finished booting.

    Raises:
        UsageError: the node did not boot in time; names the node and its failed units.
    """
    container = sandbox.container(node)
    host.podman("start", container)
    deadline = time.monotonic() + BOOT_TIMEOUT_S
    state = ""
    while time.monotonic() < deadline:
        state = host.podman("exec", container, "systemctl", "is-system-running", check=False).stdout.strip()
        if state in {"running", "degraded"}:
            return
        time.sleep(0.3)
    msg = f"sandbox {sandbox.name}: node {node} did not boot in {BOOT_TIMEOUT_S} s (systemd: {state or 'no answer'}); "
    msg += f"see: podman logs {container}"
    raise UsageError(msg)


def write_known_hosts(sandbox: Sandbox) -> None:
    """Record the nodes' host keys, read through podman, so that the first SSH connection is verified."""
    path = sandbox.path / "ssh" / "known_hosts"
    old = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    up_nodes = {name for name, state in containers(sandbox.name).items() if state == "running"}

    def line(node: str) -> str:
        if sandbox.container(node) not in up_nodes:
            return next((entry for entry in old if entry.split(" ")[0].endswith(f",{node}")), "")
        shown = host.podman("exec", sandbox.container(node), "cat", "/etc/ssh/ssh_host_ed25519_key.pub")
        return f"{sandbox.address(node)},{node} {' '.join(shown.stdout.split()[:2])}\n"

    path.write_text("".join(in_parallel(line, sandbox.nodes)), encoding="utf-8")


def in_parallel(work: Callable[[str], _T], nodes: Iterable[str]) -> list[_T]:
    """Run `work` for all nodes in parallel and return the results in order; raise the first error."""
    nodes = list(nodes)
    if not nodes:
        return []
    with concurrent.futures.ThreadPoolExecutor(max_workers=min(8, len(nodes))) as pool:
        return list(pool.map(work, nodes))
