"""A machine with a kernel of its own boots a real image by iPXE, and takes a bundle that is signed and new, or none."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from busbar.image import bundle, tree
from busbar.sandbox.state import load
from conftest import TOP, plain_environment, recap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Cluster

pytestmark = pytest.mark.proves("pxe_server", "node_pull")

SERVER, NODE, MAC = "login", "net1", "52:54:00:bb:99:01"
KEY_LINE = re.compile(r"busbar: host key of this node: 256 (SHA256:\S+)")
# Emulated without KVM, beside other tests.
BOOT_S, PULL_S = 900, 1800


class Machine:
    """An emulated machine on the network of a sandbox, and what is served to it."""

    def __init__(self, sandbox: Cluster, folder: Path) -> None:
        """Write the inventory that has it."""
        self.sandbox, self.folder, self.work = sandbox, folder / "published", folder
        self.shipped = folder / "shipped"
        self.folder.mkdir()
        known = load(sandbox.name)
        self.server, self.address = sandbox.exec(SERVER, "hostname -I").stdout.split()[0], f"{known.subnet}.250"
        self.console = folder / "console"
        self.tap = f"bb{os.getpid() % 10**6}"
        shown = subprocess.run(["podman", "network", "inspect", known.network], check=True, capture_output=True)
        self.bridge = json.loads(shown.stdout)[0]["network_interface"]
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "id"], check=True)
        own = {
            "pxe_server_interface": "eth0",
            "pxe_server_content": str(self.folder),
            "pxe_server_address": self.server,
        }
        own["pxe_server_kernel_options"] = "net.ifnames=0 console=ttyS0 mitigations=off"
        booted = {"hosts_address": self.address, "pxe_server_mac": MAC, "ansible_user": "root", "lmod_enabled": False}
        hosts = {"pxe_server": {"hosts": {SERVER: own}}, "slurm_compute": {"hosts": {NODE: booted}}}
        self.further = sandbox.state / "boot.yml"
        self.further.write_text(json.dumps({"all": {"children": hosts}}), encoding="utf-8")
        self.process: subprocess.Popen[bytes] | None = None

    def busbar(self, *words: str) -> None:
        """Run a command on both inventories."""
        done = self.sandbox.busbar(*words, "-i", str(self.sandbox.inventory), "-i", str(self.further), timeout=PULL_S)
        assert done.returncode == 0, done.stdout + done.stderr

    def plug(self) -> None:
        """Plug its cable into the sandbox's network, and switch it on."""
        for words in (
            ["tuntap", "add", self.tap, "mode", "tap"],
            ["link", "set", self.tap, "master", self.bridge, "up"],
        ):
            subprocess.run(["ip", *words], check=True)
        command = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "qemu64", "-smp", "1", "-m", "2048"]
        command += [
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-serial",
            f"file:{self.console}",
            "-boot",
            "n",
        ]
        command += ["-netdev", f"tap,id=cable,ifname={self.tap},script=no,downscript=no"]
        command += ["-device", f"virtio-net-pci,netdev=cable,mac={MAC}"]
        command += ["-object", "rng-random,id=random,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=random"]
        with (self.work / "qemu.log").open("wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def unplug(self) -> None:
        """Take its power away."""
        if self.process:
            self.process.kill()
            self.process.wait()
        subprocess.run(["ip", "link", "delete", self.tap], check=False, capture_output=True)
        self.further.unlink(missing_ok=True)

    def said(self) -> str:
        """What is on its console."""
        return self.console.read_text(errors="replace") if self.console.exists() else ""

    def wait(self, what: Callable[[], bool], message: str, timeout: float) -> None:
        """Wait until something holds while the machine runs."""
        end = time.monotonic() + timeout
        while not what():
            assert self.process, "it is not switched on"
            if self.process.poll() is not None or time.monotonic() > end:
                pytest.fail(f"{message}:\n{(self.work / 'qemu.log').read_text()}{self.said()[-3000:]}")
            time.sleep(2)

    def ssh(self, command: str, *, check: bool = True, timeout: float = 120) -> str:
        """Run a command on it, trusting the host key that its console shows."""
        found = KEY_LINE.search(self.said())
        assert found
        known = self.work / "known_hosts"
        if not known.exists():
            scan = ["ssh-keyscan", "-T", "60", "-t", "ed25519", self.address]
            line = subprocess.run(scan, check=True, capture_output=True, text=True).stdout
            shown = subprocess.run(["ssh-keygen", "-lf", "-"], input=line, check=True, capture_output=True, text=True)
            assert found[1] in shown.stdout
            known.write_text(line)
        options = ["-o", "BatchMode=yes", "-o", f"UserKnownHostsFile={known}", "-o", "ConnectTimeout=60"]
        words = ["ssh", "-i", str(self.work / "id"), *options, f"root@{self.address}", command]
        done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=timeout)
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def outcome(self) -> dict[str, Any]:
        """What became of the last pull; empty while there was none."""
        with contextlib.suppress(ValueError):
            told: dict[str, Any] = json.loads(self.ssh("cat /run/busbar/node_pull_status.json", check=False))
            return told
        return {}


@pytest.fixture(scope="module")
def machine(sandbox: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine that has booted the image which was built for it."""
    made = Machine(sandbox, tmp_path_factory.mktemp("boot"))
    published = str(made.folder)
    made.busbar("image", "bundle", published)
    build = ["--like", NODE, "--url", f"http://{made.server}", "--authorized-key", str(made.work / "id.pub")]
    made.busbar("image", "build", published, *build, "--kernel", "linux-image-cloud-amd64")
    shutil.copytree(made.folder, made.shipped, ignore=shutil.ignore_patterns("root.squashfs"))
    # A newer one than that of the image, so that it is seen which of them is in force.
    made.busbar("image", "bundle", published)
    made.busbar("provision", "pxe")
    try:
        made.plug()
        made.wait(lambda: bool(KEY_LINE.search(made.said())), "no host key was shown", BOOT_S)
        made.wait(lambda: f"{NODE} login:" in made.said(), "it did not come up under its name", BOOT_S)
        yield made
    finally:
        made.unplug()
        units = "busbar-pxe-dhcp busbar-pxe-http"
        sandbox.exec(SERVER, f"systemctl disable -q --now {units}; rm -r /var/cache/busbar/pxe /etc/busbar/pxe")


def test_it_boots_and_configures_itself(machine: Machine) -> None:
    served = bundle.published_serial(machine.folder)
    machine.wait(lambda: bool(machine.outcome()), "nothing was pulled", PULL_S)
    outcome = machine.outcome()
    assert (outcome["result"], outcome["serial"]) == ("applied", served), outcome
    assert machine.ssh("hostname") == NODE
    assert " ctl" in machine.ssh("cat /etc/hosts")
    assert machine.ssh("systemctl is-failed busbar-node-pull busbar-node-identity", check=False) != "failed"
    # The identity that it has is its own, of this boot; of the cluster it has nothing yet.
    assert re.fullmatch("[0-9a-f]{32}", machine.ssh("cat /etc/machine-id"))
    assert machine.ssh("ls /etc/munge/munge.key /etc/ssh/*-cert.pub /etc/ssh/ssh_known_hosts", check=False) == ""
    assert machine.ssh("command -v slurmd munged") == "/usr/sbin/slurmd\n/usr/sbin/munged"


def test_an_older_bundle_is_refused(machine: Machine) -> None:
    served = bundle.published_serial(machine.folder)
    archive = next(machine.folder.glob("bundle-*.tar.gz")).read_bytes()
    name = json.loads((machine.folder / bundle.SIGNED).read_text().partition(bundle.MARK)[0])["cluster"]
    key = machine.sandbox.state / "secrets" / bundle.KEY
    older = machine.work / "older"
    bundle.publish(archive, name, key, older, serial=served - 1)
    target = f"{machine.sandbox.container(SERVER)}:/var/cache/busbar/pxe/"
    subprocess.run(["podman", "cp", str(older / bundle.SIGNED), target], check=True)
    machine.ssh("systemctl start busbar-node-pull", check=False, timeout=PULL_S)
    outcome = machine.outcome()
    assert (outcome["result"], outcome["serial"]) == ("refused", served), outcome
    assert f"is older (serial {served - 1})" in outcome["reason"]


def test_a_second_run_in_the_image_changes_nothing_and_it_has_no_identity(machine: Machine) -> None:
    root = machine.work / "root"
    subprocess.run(["unsquashfs", "-q", "-n", "-d", root, machine.folder / "root.squashfs"], check=True)
    secrets = {path.name: path.read_text(errors="replace") for path in machine.sandbox.state.glob("secrets/*")}
    private = {
        name: text for name, text in secrets.items() if not name.endswith((".pub", ".crt", "known_hosts", "json"))
    }
    assert bundle.KEY in private
    assert tree.traces(root, private) == []
    told: dict[str, object] = {"node_pull_url": f"http://{machine.server}", "node_pull_shipped": str(machine.shipped)}
    told |= tree.chroot_variables(root, NODE)
    words = ["-i", str(machine.further), "--limit", NODE, "--tags", tree.TAGS, "-e", json.dumps(told)]
    command = ["ansible-playbook", "-i", str(machine.sandbox.inventory), str(TOP / "playbooks/image.yml"), *words]
    # What is mounted there only that process sees.
    program = "import json, subprocess, sys; from pathlib import Path; from busbar.image import tree\n"
    program += "with tree.mounted(Path(sys.argv[1])): sys.exit(subprocess.run(json.loads(sys.argv[2])).returncode)"
    done = subprocess.run(
        [sys.executable, "-c", program, str(root), json.dumps(command)],
        check=False,
        capture_output=True,
        text=True,
        cwd=TOP,
        env=plain_environment(),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert recap(done.stdout)[NODE]["changed"] == 0, done.stdout
