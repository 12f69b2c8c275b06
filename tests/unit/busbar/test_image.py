"""Tests of bundles and images: their content, and input that is refused before anything is created."""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from busbar.cli import main
from busbar.errors import UsageError
from busbar.image import bundle, bundle_inventory, rootfs

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow
ROLES = Path(__file__).resolve().parents[3] / "roles"
HOSTS = """
all:
  vars:
    cluster_name: trial
    my_zone: Europe/Berlin
    storage_backend: bind
    my_token: a-token-of-the-site
    hosts_timezone: "{{ my_zone }}"
    monitoring_password: not-for-nodes
    ansible_password: not-for-nodes
  children:
    slurm_controller: {hosts: {ctl: {hosts_address: 192.0.2.1}}}
    slurm_compute: {hosts: {gpu1: {hosts_address: 192.0.2.11}}}
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a site, which is also the working directory."""
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory/hosts.yml").write_text(HOSTS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def packed(folder: Path) -> dict[str, bytes]:
    """Return the files of the bundle in a folder by name."""
    manifest = json.loads((folder / bundle.SIGNED).read_text().partition(bundle.MARK)[0])
    with tarfile.open(folder / f"bundle-{manifest['sha256']}.tar.gz") as tar:
        return {member.name: tar.extractfile(member).read() for member in tar if member.isreg()}  # type: ignore[union-attr]


def test_bundle_contains_roles_ansible_and_only_declared_values(site: Path) -> None:
    assert main(["image", "bundle", "published"]) == 0
    files = packed(site / "published")
    inventory = json.loads(files["inventory.json"])["all"]
    assert inventory["hosts"]["gpu1"] == {
        "cluster_name": "trial",
        "hosts_address": "192.0.2.11",
        "hosts_timezone": "{{ my_zone }}",
        "my_zone": "Europe/Berlin",
        # Not an option of a single role; the default of another option uses it.
        "storage_backend": "bind",
    }
    assert inventory["children"]["slurm_compute"] == {"hosts": {"gpu1": {}}}
    for text in (b"not-for-nodes", b"a-token-of-the-site"):
        assert not [name for name, content in files.items() if text in content]
    assert {"ansible.cfg", "python/ansible/cli/playbook.py", "python/ClusterShell/NodeSet.py"} <= set(files)
    assert "collections/ansible_collections/busbar/cluster/playbooks/pull.yml" in files
    assert not [name for name in files if name.endswith((".so", ".pyc"))]


def test_ansible_of_a_bundle_needs_only_the_systems_python(site: Path) -> None:
    assert main(["image", "bundle", "published"]) == 0
    with tarfile.open(next((site / "published").glob("bundle-*.tar.gz"))) as tar:
        tar.extractall(site / "un")  # noqa: S202 - ours
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(site),
        "PYTHONPATH": str(site / "un/python"),
        "ANSIBLE_CONFIG": str(site / "un/ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(site / "un/collections"),
    }
    command = ["/usr/bin/python3", "-B", "-m", "ansible.cli.playbook", "-i", "inventory.json", "--limit", "gpu1"]
    command += ["collections/ansible_collections/busbar/cluster/playbooks/pull.yml", "--list-tasks"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment, cwd=site / "un")
    if "Ansible requires Python" in done.stderr:
        pytest.skip("the system's Python is too old for this ansible-core")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hosts : names | Write /etc/hosts" in done.stdout


def test_unchanged_site_gives_an_identical_archive_and_a_higher_serial(site: Path) -> None:
    serials, names = [], set()
    for _ in range(2):
        assert main(["image", "bundle", "published"]) == 0
        serials.append(bundle.published_serial(site / "published"))
        names |= {path.name for path in (site / "published").glob("bundle-*")}
    assert serials[1] > serials[0]
    assert len(names) == 1
    assert (site / "secrets" / bundle.KEY).stat().st_mode & 0o777 == 0o600


REFUSED: dict[str, tuple[str, str]] = {
    "a lookup": ("hosts_timezone: \"{{ lookup('file', '/etc/zone') }}\"", "hosts_timezone: uses a lookup"),
    "a secret by its name": ('hosts_timezone: "{{ monitoring_password }}"', "monitoring_password: is a secret"),
    "a secret by its text": ("hosts_timezone: 0123456789abcdef", "hosts_timezone: contains the secret munge.key"),
    "an encrypted option": (
        "hosts_timezone: !vault |\n      $ANSIBLE_VAULT;1.1;AES256\n      6162",
        "hosts_timezone: is encrypted",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_values_that_nodes_must_not_have_are_refused(site: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    line, says = REFUSED[name]
    text = HOSTS.replace('hosts_timezone: "{{ my_zone }}"', line)
    (site / "inventory/hosts.yml").write_text(text)
    (site / "secrets").mkdir(mode=0o700)
    (site / "secrets/munge.key").write_text("0123456789abcdef")
    assert main(["image", "bundle", "published"]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert "ctl: " in said or "gpu1: " in said
    assert not (site / "published").exists()


def test_no_bundle_contains_a_declared_secret() -> None:
    allowed, secret = bundle_inventory.declared_options(ROLES)
    assert {"munge_key", "monitoring_password", "identity_password"} <= secret
    assert not allowed & secret


def test_hosts_of_two_clusters_are_refused(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (site / "inventory/hosts.yml").write_text(HOSTS.replace("gpu1: {", "gpu1: {cluster_name: other, "))
    assert main(["image", "bundle", "published"]) == 2
    assert "cluster_name: differs between hosts (other, trial)" in capsys.readouterr().err


def test_build_without_bundle_public_key_or_compute_node_is_refused(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rootfs, "check_host", lambda: None)
    (site / "id").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    words = ["image", "build", "published", "--like", "gpu1", "--url", "http://192.0.2.1/", "--authorized-key", "id"]
    assert main(words) == 2
    assert "published has no bundle, but an image requires one" in capsys.readouterr().err
    assert main(["image", "bundle", "published"]) == 0
    assert main(words) == 2
    assert "not an SSH public key" in capsys.readouterr().err
    assert main([word.replace("gpu1", "ctl") for word in words]) == 2
    assert "--like ctl: is not in the group slurm_compute" in capsys.readouterr().err
    assert main([word.replace("gpu1", "gpu9") for word in words]) == 2
    assert "--like gpu9: is not a host of the inventory" in capsys.readouterr().err


def test_build_names_missing_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda name, path=None: None)  # noqa: ARG005 - as that of shutil
    with pytest.raises(UsageError, match="apt-get install mmdebstrap openssh-client squashfs-tools"):
        rootfs.check_host()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return the tree of an image, as a chroot leaves it."""
    made = tmp_path / "root"
    for name in ("etc/ssh", "etc/munge", "var/lib/dbus", "var/log/apt", "root/.ssh", "usr/share/doc"):
        (made / name).mkdir(parents=True)
    (made / "etc/machine-id").write_text("0123\n")
    (made / "etc/hostname").write_text("builder\n")
    (made / "etc/ssh/ssh_host_ed25519_key").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    (made / "etc/munge/munge.key").write_bytes(b"\0random")
    (made / "var/lib/dbus/machine-id").symlink_to("/etc/machine-id")
    (made / "var/log/apt/history.log").write_text("installed\n")
    (made / "root/.ssh/authorized_keys").write_text("ssh-ed25519 AAAA\n")
    return made


def test_traces_of_the_build_host_are_removed(root: Path) -> None:
    assert len(rootfs.traces(root, {})) >= 5
    rootfs.seal(root)
    assert rootfs.traces(root, {}) == []
    assert (root / "etc/machine-id").read_text() == ""
    assert (root / "root/.ssh/authorized_keys").exists()
    # Daemons such as munged do not start without the folder of their log.
    assert (root / "var/log/apt").is_dir()


def leave(path: str, text: str) -> Callable[[Path], Any]:
    """Return a function that writes a file into a tree."""
    return lambda root: (root / path).write_text(text)


@pytest.mark.parametrize(
    ("left", "says"),
    [
        (leave("etc/tls.pem", "-----BEGIN RSA PRIVATE KEY-----\n"), "/etc/tls.pem: is a private key"),
        (
            leave("etc/app.conf", "password=0123456789abcdef\n"),
            "/etc/app.conf: contains the secret monitoring.password",
        ),
        (leave("etc/hostname", "builder"), "/etc/hostname: differs between nodes"),
        (leave("var/log/apt/term.log", "Log"), "/var/log/apt/term.log: differs between nodes"),
        (leave("etc/machine-id", "0123"), "/etc/machine-id: is not empty"),
        (lambda root: (root / "etc/machine-id").unlink(), "/etc/machine-id: is not empty"),
    ],
)
def test_remaining_trace_is_found(root: Path, left: Callable[[Path], Any], says: str) -> None:
    rootfs.seal(root)
    left(root)
    assert rootfs.traces(root, {"monitoring.password": "0123456789abcdef\n", "short": "no"}) == [says]
