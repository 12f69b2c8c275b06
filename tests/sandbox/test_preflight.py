"""Tests of the preflight: invalid input and faults give one error with hosts, place and remedy before any change."""

from __future__ import annotations

import dataclasses
import json
import re
import secrets
import shutil
from typing import TYPE_CHECKING, Any

import pexpect
import pytest
import yaml
from conftest import TOP, plain_environment, recap

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Cluster

pytestmark = pytest.mark.proves("preflight")

MARK = "/root/untouched"


@dataclasses.dataclass
class Site:
    """A copy of the sandbox's inventory that a test may modify."""

    cluster: Cluster
    folder: Path

    def change(self, what: Callable[[dict[str, Any]], None]) -> None:
        """Change the groups below `all`."""
        path = self.folder / "inventory" / "hosts.yml"
        hosts = yaml.safe_load(path.read_text())
        what(hosts["all"]["children"])
        path.write_text(yaml.safe_dump(hosts))

    def secret(self, name: str, content: str | None, mode: int) -> Path:
        """Write a secret, or create a directory in its place if there is no content."""
        path = self.folder / "secrets" / name
        path.unlink()
        if content is None:
            path.mkdir()
        else:
            path.write_text(content)
        path.chmod(mode)
        return path

    def provision(self, playbook: str = "site", **variables: object) -> subprocess.CompletedProcess[str]:
        """Provision the site; the caller checks the exit code."""
        extra = ["-e", json.dumps(variables)] if variables else []
        return self.cluster.busbar("provision", playbook, "-i", str(self.folder / "inventory"), *extra)

    def refusal(self, **variables: object) -> str:
        """Provision the whole site, check that it is refused with one error, and return its text."""
        done = self.provision("site", **variables)
        assert done.returncode == 2, done.stdout + done.stderr
        assert all(counts["changed"] == 0 for counts in recap(done.stdout).values())
        assert re.findall(r"^PLAY (?!RECAP).*", done.stdout, re.MULTILINE) == [
            next(line for line in done.stdout.splitlines() if line.startswith("PLAY "))
        ], "nothing may follow the preflight"
        assert done.stdout.count("FAILED ") == 1
        text = done.stdout[done.stdout.index("FAILED ") : done.stdout.index("Slowest tasks:")]
        assert "remedy: " in text
        return text


@pytest.fixture
def site(sandbox: Cluster, tmp_path: Path) -> Site:
    """Return the sandbox with a copy of inventory and secrets."""
    shutil.copytree(sandbox.inventory, tmp_path / "inventory", symlinks=True)
    shutil.copytree(sandbox.state / "secrets", tmp_path / "secrets")
    return Site(sandbox, tmp_path)


@pytest.mark.core
def test_valid_site_passes(site: Site) -> None:
    done = site.provision("preflight")
    assert done.returncode == 0, done.stdout
    assert {host: counts["failed"] for host, counts in recap(done.stdout).items()} == dict.fromkeys(
        ["ctl", "login", *site.cluster.compute], 0
    )


@pytest.mark.fault(
    "a host is twice in the inventory",
    says="gpu[1-2]: ansible_host: share the address ",
    heals="correct the inventory",
)
def test_two_hosts_with_one_address_are_refused(site: Site) -> None:
    def change(groups: dict[str, Any]) -> None:
        hosts = groups["sandbox_gpu"]["hosts"]
        hosts["gpu2"]["ansible_host"] = hosts["gpu1"]["ansible_host"]

    site.change(change)
    assert "gpu[1-2]: ansible_host: share the address " in site.refusal()


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({"apptainer_enabled": True}, r"gpu\[1-\d\],login: apptainer_enabled: Debian .* does not package Apptainer"),
        (
            {"scratch_per_job": True, "pyxis_enabled": True, "enroot_enabled": True, "enroot_checksums": {"x": "y"}},
            r"gpu\[1-\d\]: scratch_per_job: Slurm 24\.11\.\d cannot run a TaskProlog in Pyxis containers",
        ),
    ],
)
def test_unavailable_feature_of_a_release_is_reported_once(site: Site, variables: dict[str, Any], place: str) -> None:
    assert len(re.findall(place, site.refusal(**variables))) == 1


def test_site_may_have_its_own_variables(site: Site) -> None:
    site.change(lambda groups: groups["sandbox_gpu"]["vars"].update(hardware_room="B12", slurm_of_the_site="x"))
    done = site.provision("preflight", preflight_allowed_variables=["hardware_room", "slurm_of_the_site"])
    assert done.returncode == 0, done.stdout


def _with_storage(groups: dict[str, Any]) -> None:
    """Make the controller the NFS server, and the compute nodes its clients."""
    groups.update(nfs_server={"hosts": {"ctl": {}}}, nfs_client={"children": {"slurm_compute": {}}})


def test_container_with_a_fixed_host_name_is_refused(site: Site) -> None:
    """A container has the inventory name from the start; only podman can change it."""
    site.change(lambda groups: groups["sandbox_gpu"]["hosts"].update(n01=groups["sandbox_gpu"]["hosts"].pop("gpu2")))
    done = site.provision("preflight")
    text = " ".join(done.stdout.split())
    assert done.returncode == 2, done.stdout
    assert "n01: hosts_name: the container sets the host name gpu2" in text
    assert "remedy: start the container with --hostname n01" in text


def test_kernel_without_nfs_is_reported_with_a_remedy(site: Site) -> None:
    """A container uses the kernel of its host; the check must precede any installation."""
    site.change(_with_storage)
    exports = [{"path": "/a"}]
    done = site.provision("storage", storage_backend="nfs", nfs_server_exports=exports, users_create_home=False)
    if "nfsd" in site.cluster.exec("ctl", "cat /proc/filesystems").stdout:
        pytest.skip("this host's kernel serves NFS")
    assert done.returncode == 2, done.stdout
    text = " ".join(done.stdout.split())
    assert "ctl: the running kernel has no NFS server" in text
    assert "bind-mount the shared tree and set storage_backend to bind" in text
    assert recap(done.stdout)["ctl"]["changed"] == 0


@pytest.mark.core
def test_all_errors_are_reported_at_once(site: Site) -> None:
    site.change(lambda groups: groups["sandbox_gpu"]["vars"].update(hardware="dgx_x1"))
    text = site.refusal(slurm_partitions=[{"name": "big", "nodes": "gpu99"}])
    assert "unknown hardware" in text
    assert "gpu99: slurm_partitions[big]" in text


@pytest.mark.parametrize(
    ("content", "mode", "problem"),
    [
        (None, 0o700, "is not a regular file"),
        ("short", 0o600, "has 5 characters"),
        (secrets.token_hex(512), 0o644, "is accessible to other users (mode 0644)"),
    ],
)
@pytest.mark.fault(
    "a secret that others can read",
    says="is accessible to other users (mode 0644)",
    heals="chmod 0600, replace it if it was read",
)
def test_unusable_secret_is_refused(site: Site, content: str | None, mode: int, problem: str) -> None:
    path = site.secret("munge.key", content, mode)
    text = site.refusal()
    assert f"{path}: {problem}" in text
    assert content is None or len(content) < 10 or content not in text


def _add_ghost(groups: dict[str, Any]) -> None:
    """Add a node with an unused address."""
    address = groups["slurm_controller"]["hosts"]["ctl"]["ansible_host"].rpartition(".")[0] + ".250"
    groups["sandbox_gpu"]["hosts"]["ghost"] = {"ansible_host": address}


@pytest.mark.fault(
    "a node is gone before a run",
    says="ghost: ansible_host: cannot be reached: ",
    heals="power it on, or go on without it by `-e preflight_allow_unreachable=true`",
)
def test_unreachable_host_is_reported(site: Site) -> None:
    site.change(_add_ghost)
    assert "ghost: ansible_host: cannot be reached: " in site.refusal(ansible_ssh_timeout=3)


@pytest.mark.fault(
    "a host shows another key",
    says="gpu2: ansible_host: cannot be reached: ",
    heals="check the key, `busbar ssh bootstrap`",
)
def test_changed_host_key_is_detected_despite_an_open_connection(site: Site) -> None:
    key = "/etc/ssh/ssh_host_ed25519_key"
    files = f"{key} {key}.pub {key}-cert.pub"
    cluster = site.cluster
    open_one = cluster.playbook("preflight.yml", "--limit", "gpu2")
    assert open_one.returncode == 0, open_one.stdout
    cluster.exec("gpu2", f"for f in {files}; do mv $f $f.kept; done; ssh-keygen -q -t ed25519 -N '' -f {key}")
    cluster.exec("gpu2", "systemctl restart ssh")
    try:
        done = cluster.busbar("provision", "preflight", "-i", str(cluster.inventory))
        plain = cluster.playbook("preflight.yml", "--limit", "gpu2")
    finally:
        cluster.exec("gpu2", f"for f in {files}; do mv $f.kept $f; done; systemctl restart ssh")
    assert done.returncode == 2, done.stdout
    assert "gpu2: ansible_host: cannot be reached: " in done.stdout
    assert "host key verification failed" in done.stdout.lower()
    assert plain.returncode != 0
    assert cluster.playbook("preflight.yml", "--limit", "gpu2").returncode == 0


def test_unreachable_host_may_be_skipped(site: Site) -> None:
    site.change(_add_ghost)
    done = site.provision("preflight", preflight_allow_unreachable=True, ansible_ssh_timeout=3)
    counts = recap(done.stdout)
    assert counts["ghost"]["unreachable"] == 1
    assert counts["gpu1"]["ok"] > 0
    assert "UNREACHABLE ghost" in done.stdout
    assert "FAILED" not in done.stdout


@pytest.fixture
def sudo_password(sandbox: Cluster) -> Iterator[str]:
    """Make sudo on gpu2 require a password during the test; yields the password."""
    word = secrets.token_hex(8)
    rule = "/etc/sudoers.d/admin"
    sandbox.exec("gpu2", f"cp -p {rule} {MARK}; sed -i 's/NOPASSWD: //' {rule}; echo 'admin:{word}' | chpasswd")
    yield word
    sandbox.exec("gpu2", f"mv {MARK} {rule}; usermod -p '*' admin")


def ask(site: Site, word: str, playbook: str) -> tuple[int, str]:
    """Provision with -K on a terminal, and enter a password; return exit code and output."""
    arguments = ["provision", playbook, "-K", "-i", str(site.folder / "inventory")]
    child = pexpect.spawn(
        "busbar",
        arguments,
        cwd=str(TOP),
        env=plain_environment(),
        encoding="utf-8",
        timeout=120,
        dimensions=(50, 200),
    )
    child.expect("sudo password: ")
    child.sendline(word)
    child.expect(pexpect.EOF)
    child.close()
    return int(child.exitstatus), str(child.before)


@pytest.mark.parametrize("given", ["right", "wrong"])
@pytest.mark.fault(
    "a wrong sudo password",
    says="gpu2: become: sudo fails: …password",
    heals="enter the correct password",
)
def test_sudo_password_is_used_and_a_wrong_one_is_reported(site: Site, sudo_password: str, given: str) -> None:
    word = sudo_password if given == "right" else "not-the-password"
    code, output = ask(site, word, "preflight" if given == "right" else "site")
    if given == "right":
        assert code == 0, output
    else:
        assert code == 2, output
        assert re.search(r"gpu2: become: sudo fails: .*password", output)
        assert "remedy: enter the correct sudo password" in output
        assert "changed=1" not in output
    (log,) = (site.folder / "logs").iterdir()
    assert word not in output + log.read_text()


@pytest.mark.fault(
    "sudo asks for a password",
    says="gpu2: become: sudo fails: Missing sudo password",
    heals="`-K`, or `busbar ssh bootstrap --sudo`",
)
def test_missing_sudo_password_is_reported(site: Site, sudo_password: str) -> None:
    assert sudo_password
    assert "gpu2: become: sudo fails: Missing sudo password" in site.refusal()


@pytest.mark.fault(
    "less memory and fewer CPUs than declared",
    says="declared, but the host has ",
    heals="repair the node or correct its profile",
)
def test_declared_cpus_and_memory_above_the_real_ones_are_refused(site: Site) -> None:
    text = site.refusal(hardware_profiles_extra={"sandbox_gpu": {"cores_per_socket": 4096, "memory_mb": 999999999}})
    assert re.search(r"gpu\[1-\d\]: hardware: 4096 CPUs declared, but the host has \d+", text)
    assert re.search(r"gpu\[1-\d\]: hardware: memory_mb 999999999 declared, but the host has \d+", text)


@pytest.mark.fault(
    "a UID of another user",
    says="gpu1: users_accounts: uid 2002 of user bob is taken by mallory",
    heals="change one of the two UIDs",
)
def test_uid_of_another_user_is_refused(site: Site) -> None:
    site.cluster.exec("gpu1", "useradd -o -u 2002 mallory")
    try:
        text = site.refusal()
    finally:
        site.cluster.exec("gpu1", "userdel mallory")
    assert "gpu1: users_accounts: uid 2002 of user bob is taken by mallory" in text


def test_insufficient_disk_space_and_unsupported_system_are_reported(site: Site) -> None:
    text = site.refusal(preflight_free_mb={"/": 10**12}, preflight_systems={"solaris": ["11"]})
    assert re.search(r"disk /: \d+ MiB free, 1000000000000 MiB required", text)
    assert "operating system: Debian GNU/Linux" in text
    assert "remedy: install one of: solaris 11" in text


def test_limit_checks_only_the_named_hosts(site: Site) -> None:
    done = site.cluster.busbar("provision", "preflight", "-i", str(site.folder / "inventory"), "--limit", "gpu1")
    assert done.returncode == 0, done.stdout
    assert list(recap(done.stdout)) == ["gpu1"]
