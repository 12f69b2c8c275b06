"""Tests of a site outside the checkout: created by `busbar init`, provisioned with the built collection."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
import yaml
from conftest import QUICK, TOP, Cluster, plain_environment, recap

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.proves("site")


@pytest.fixture(scope="module")
def collections(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the built collection, installed offline."""
    folder = tmp_path_factory.mktemp("released")
    subprocess.run([TOP / "scripts" / "build", folder], check=True, capture_output=True)
    (built,) = folder.glob("busbar-cluster-*.tar.gz")
    install = ["ansible-galaxy", "collection", "install", str(built), "-p", str(folder / "own"), "--offline", "--force"]
    # Includes the collections that the environment of the checkout has already.
    subprocess.run(install, check=True, capture_output=True, cwd=folder)
    assert (folder / "own" / "ansible_collections" / "busbar" / "cluster" / "MANIFEST.json").is_file()
    return folder / "own"


def of_release(collections: Path) -> dict[str, str]:
    """Return an environment in which Ansible does not find the checkout."""
    kept = {name: value for name, value in plain_environment().items() if name != "ANSIBLE_CONFIG"}
    return kept | {"ANSIBLE_COLLECTIONS_PATH": str(collections)}


def snapshot(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*") if path.suffix != ".pyc" and path.name != "__pycache__"}


def test_minimal_inventory_without_variables_of_the_checkout_suffices(
    sandbox: Cluster, collections: Path, tmp_path: Path
) -> None:
    """Runs all roles in check mode on a minimal cluster: all other options have defaults."""
    said = yaml.safe_load((sandbox.inventory / "group_vars" / "all" / "zz_sandbox.yml").read_text())
    reached = ("ansible_user", "ansible_ssh_private_key_file", "ansible_ssh_common_args", "cluster_name")
    hosts = yaml.safe_load((sandbox.inventory / "hosts.yml").read_text())["all"]["children"]
    address = {host: own for group in hosts.values() for host, own in (group.get("hosts") or {}).items() if own}
    lines = [
        "all:",
        f"  vars: {{{', '.join(f'{name}: {said[name]!r}' for name in reached)}, cluster_secrets_dir: SECRETS,",
        "    hosts_sysctl_apply: false, nvidia_driver_source: none, cuda_source: none, dcgm_source: none,",
        "    nvidia_container_toolkit_source: none, validation_backend: mpi,",
        f"    hardware_profiles_extra: {said['hardware_profiles_extra']}}}",
        "  children:",
        *(f"    {name}: {{hosts: {{ctl: {address['ctl']}}}}}" for name in ("slurm_controller", "slurm_database")),
        f"    slurm_login: {{hosts: {{login: {address['login']}}}}}",
        f"    slurm_compute: {{hosts: {{gpu1: {address['gpu1']}}}, vars: {{hardware: sandbox_gpu}}}}",
        "    monitoring: {hosts: {ctl: }}",
    ]
    text = "\n".join(lines).replace("SECRETS", str(sandbox.state / "secrets")).replace("None", "null")
    (tmp_path / "hosts.yml").write_text(f"{text}\n")
    before = snapshot(collections)
    for playbook, *options in (["preflight"], ["site", "--check", "-e", "slurm_allow_job_loss=true"]):
        done = subprocess.run(
            ["ansible-playbook", "-i", "hosts.yml", f"busbar.cluster.{playbook}", *options],
            check=False,
            capture_output=True,
            text=True,
            timeout=1800,
            cwd=tmp_path,
            env=of_release(collections),
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    assert min(counts["ok"] for counts in recap(done.stdout).values()) > 20, "all roles had a look"
    assert snapshot(collections) == before, "what a site makes is in its own folder"


def test_site_created_by_init_is_provisioned(sandbox: Cluster, collections: Path, tmp_path: Path) -> None:
    """It has the sandbox's hosts, variables and secrets, so nothing changes except its own report."""
    site = tmp_path / "hall"
    made = sandbox.busbar("init", str(site))
    assert made.returncode == 0, made.stderr
    shutil.copy(sandbox.inventory / "hosts.yml", site / "inventory" / "hosts.yml")
    shutil.copy(sandbox.inventory / "group_vars/all/zz_sandbox.yml", site / "inventory/group_vars/all/zz_sandbox.yml")
    shutil.copytree(sandbox.state / "secrets", site / "secrets")
    before = snapshot(collections)
    done = subprocess.run(
        ["ansible-playbook", "busbar.cluster.site", *QUICK],
        check=False,
        capture_output=True,
        text=True,
        timeout=1800,
        cwd=site,
        env=of_release(collections),
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    assert {host: counts["changed"] for host, counts in recap(done.stdout).items()} == dict.fromkeys(
        recap(done.stdout), 0
    )
    assert len({path.resolve() for path in (site / "reports").glob("*/report.json")}) == 1
    assert snapshot(collections) == before, "what a site makes is in its own folder"


def test_commands_work_in_the_folder_of_a_site(sandbox: Cluster, tmp_path: Path) -> None:
    site = tmp_path / "hall"
    assert sandbox.busbar("init", str(site)).returncode == 0
    shutil.copy(sandbox.inventory / "hosts.yml", site / "inventory" / "hosts.yml")
    shutil.copy(sandbox.inventory / "group_vars/all/zz_sandbox.yml", site / "inventory/group_vars/all/zz_sandbox.yml")
    shutil.copytree(sandbox.state / "secrets", site / "secrets")
    environment = {name: value for name, value in plain_environment().items() if name != "ANSIBLE_CONFIG"}
    for command in (["provision", "preflight"], ["provision", "base"], ["validate", *QUICK], ["report", "show"]):
        done = subprocess.run(
            ["busbar", *command], check=False, capture_output=True, text=True, timeout=900, cwd=site, env=environment
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    assert list((site / "logs").iterdir())
