"""Tests of `busbar init`: other commands and Ansible use the created folder without changes."""

from __future__ import annotations

import configparser
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from busbar import paths
from busbar.cli import main
from busbar.paths import SITE_FILES, ansible_config, collection, default_inventory
from busbar.run.playbook import environment
from first_steps import inventory_of

pytestmark = pytest.mark.slow

TOP = Path(__file__).resolve().parents[4]
PROGRAMS = Path(sys.executable).parent
ANSIBLE = {"ANSIBLE_NOCOLOR": "1", "ANSIBLE_COLLECTIONS_PATH": str(TOP / ".collections")}
# The callback preload imports all plugins, which takes longer than these runs.
ANSIBLE["ANSIBLE_CALLBACKS_ENABLED"] = "ansible.builtin.minimal"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a new site in a folder whose parent did not exist."""
    folder = tmp_path_factory.mktemp("sites") / "new" / "Hall 1"
    assert main(["init", str(folder)]) == 0
    return folder


def test_site_has_inventory_and_settings_and_git_ignores_secrets(tmp_path: Path) -> None:
    site = tmp_path / "Hall 1"
    assert main(["init", str(site)]) == 0
    files = {str(path.relative_to(site)) for path in site.rglob("*") if path.is_file()}
    assert {".gitignore", "README.md", "ansible.cfg", "requirements.yml", "inventory/hosts.yml"} <= files
    assert "inventory/group_vars/all/cluster.yml" in files
    subprocess.run(["git", "init", "-q", site], check=True)
    for name in ("secrets/munge.key", "reports/1/report.json", "logs/a.log", "inventory.lock"):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text("secret")
    shown = subprocess.run(
        ["git", "status", "--porcelain", "-uall", "-z"], cwd=site, check=True, capture_output=True, text=True
    )
    assert {line[3:] for line in shown.stdout.split("\0") if line} == files
    assert yaml.safe_load((site / "inventory/group_vars/all/cluster.yml").read_text())["cluster_name"] == "hall-1"


def test_files_pass_yamllint_and_are_short(site: Path) -> None:
    subprocess.run(
        [PROGRAMS / "yamllint", "--strict", "-c", TOP / ".yamllint", site / "inventory", site / "requirements.yml"],
        check=True,
    )
    assert len((site / "README.md").read_text().splitlines()) <= 20
    for path in site.rglob("group_vars/all/*.yml"):
        text = path.read_text()
        assert len(text.splitlines()) <= 20
        roles = {name for name in (path.name for path in TOP.glob("roles/*")) if name in text.split("\n\n", 1)[0]}
        assert roles, f"{path.name} says whose options these are"
        assert "role" in text.splitlines()[1]


def test_commented_examples_are_yaml_with_existing_options(site: Path) -> None:
    specs = [yaml.safe_load(path.read_text())["argument_specs"] for path in TOP.glob("roles/*/meta/argument_specs.yml")]
    options = {name for entries in specs for entry in entries.values() for name in entry.get("options") or {}}
    for path in site.rglob("group_vars/all/*.yml"):
        lines = [line for line in path.read_text().splitlines() if re.match(r"# (\w+:|  )", line)]
        examples = yaml.safe_load("\n".join(line[2:] for line in lines)) or {}
        assert len(examples) == sum(not line.startswith("#  ") for line in lines), path.name
        assert examples.keys() <= options | {"cluster_networks"}, path.name
        assert examples or path.name == "cluster.yml", path.name


def test_ansible_cfg_is_a_subset_of_that_of_the_checkout(site: Path) -> None:
    read = {}
    for folder in (site, TOP):
        parsed = configparser.ConfigParser(interpolation=None)
        parsed.read(folder / "ansible.cfg")
        read[folder] = {(section, *pair) for section in parsed.sections() for pair in parsed.items(section)}
    assert read[site] < read[TOP]
    assert {name for _, name, _ in read[TOP] - read[site]} == {"collections_path", "ignore_patterns"}


def kept() -> dict[str, str]:
    """Return the environment without settings of Ansible."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}


def checked(site: Path, play: Path, **variables: object) -> subprocess.CompletedProcess[str]:
    """Run the inventory checks of the preflight from the site's folder; no host is contacted."""
    play.write_text(
        "- hosts: all\n"
        "  gather_facts: false\n"
        "  tasks:\n"
        "    - ansible.builtin.include_role: {name: busbar.cluster.preflight, tasks_from: inventory}\n"
        "    - ansible.builtin.debug: {msg: '{{ cluster_secrets_dir }} {{ shared_tree }}'}\n"
        "      run_once: true\n"
        "  roles: [busbar.cluster.site]\n"
    )
    return subprocess.run(
        [PROGRAMS / "ansible-playbook", play, "-e", json.dumps(variables)],
        cwd=site,
        env=kept() | ANSIBLE,
        check=False,
        capture_output=True,
        text=True,
    )


def test_preflight_accepts_the_site(site: Path, tmp_path: Path) -> None:
    done = checked(site, tmp_path / "play.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{site}/secrets /shared" in done.stdout
    listed = subprocess.run(
        [PROGRAMS / "ansible-inventory", "--list"], cwd=site, env=kept(), check=True, capture_output=True, text=True
    )
    assert json.loads(listed.stdout)["dgx_h100"]["hosts"] == ["dgx1", "dgx2"]


@pytest.mark.parametrize("page", ["README.md", "docs/first-site.md"])
def test_inventories_of_the_first_steps_share_the_homes(page: str, tmp_path: Path) -> None:
    site = tmp_path / "hall"
    assert main(["init", str(site)]) == 0
    (site / "inventory" / "hosts.yml").write_text(inventory_of(page))
    users = {"users_accounts": [{"name": "alice", "uid": 2001}]}
    done = checked(site, tmp_path / "play.yml", **users)
    assert (done.returncode, "secrets /shared" in " ".join(done.stdout.split())) == (0, True), done.stdout


def test_homes_that_are_not_shared_are_refused_unless_declared_otherwise(tmp_path: Path) -> None:
    site = tmp_path / "hall"
    assert main(["init", str(site)]) == 0
    users = {"users_accounts": [{"name": "alice", "uid": 2001}]}
    apart = yaml.safe_load(inventory_of("README.md"))
    for group in ("nfs_server", "nfs_client"):
        del apart["all"]["children"][group]
    (site / "inventory" / "hosts.yml").write_text(yaml.safe_dump(apart))
    refused = " ".join(checked(site, tmp_path / "play.yml").stdout.split())
    for words in ("dgx[01-04],login", "users_home_base", "/shared/home", "nfs_client", "storage_mounts_entries"):
        assert words in refused
    elsewhere = [{"type": "nfs", "src": "filer:/vol", "path": "/shared"}]
    assert checked(site, tmp_path / "play.yml", **users, storage_mounts_entries=elsewhere).returncode == 0
    assert checked(site, tmp_path / "play.yml", **users, users_create_home=False).returncode == 0


def test_existing_files_are_not_overwritten(site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory" / "hosts.yml").write_text("mine\n")
    (tmp_path / "README.md").symlink_to("nowhere")
    assert main(["init", str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "already has README.md, inventory/hosts.yml, so nothing was written" in line
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["README.md", "hosts.yml", "inventory"]
    assert (tmp_path / "inventory" / "hosts.yml").read_text() == "mine\n"
    assert main(["init", str(site)]) == 2


def test_folder_that_cannot_be_created_gives_a_one_line_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["init", str(tmp_path / "file" / "site")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "file" in line


def test_commands_use_the_inventory_and_the_ansible_cfg_of_the_site(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANSIBLE_CONFIG", raising=False)
    monkeypatch.delenv("ANSIBLE_COLLECTIONS_PATH", raising=False)
    monkeypatch.chdir(site)
    assert default_inventory() == site / "inventory"
    assert environment([str(site / "inventory")])["ANSIBLE_CONFIG"] == str(site / "ansible.cfg")
    assert environment(["a,b"])["ANSIBLE_CONFIG"] == str(TOP / "ansible.cfg")
    monkeypatch.chdir(tmp_path)
    assert default_inventory() == collection() / "inventory", "in a checkout its example"
    assert ansible_config([tmp_path]) == TOP / "ansible.cfg"
    monkeypatch.setattr(paths, "checkout", lambda: None)
    assert default_inventory() == tmp_path / "inventory"
    assert ansible_config([tmp_path]) == SITE_FILES / "ansible.cfg"


def test_collection_of_the_command_takes_precedence_over_those_of_the_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANSIBLE_CONFIG", raising=False)
    monkeypatch.delenv("ANSIBLE_COLLECTIONS_PATH", raising=False)
    (tmp_path / "ansible.cfg").write_text("[defaults]\ncollections_path = own:/opt/collections\n")
    (tmp_path / "hosts.yml").write_text("all: {}\n")
    paths_of_site = environment([str(tmp_path / "hosts.yml")])["ANSIBLE_COLLECTIONS_PATH"].split(":")
    assert paths_of_site == [str(TOP / ".collections"), f"{tmp_path}/own", "/opt/collections"]
    monkeypatch.setenv("ANSIBLE_COLLECTIONS_PATH", "/given")
    assert environment([])["ANSIBLE_COLLECTIONS_PATH"] == f"{TOP / '.collections'}:/given"
