"""What a run depends on: each change of it is seen, and what cannot be seen is said."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from busbar.paths import collection
from busbar.run.inputs import UnsureError, difference, inputs
from busbar.run.playbook import Playbook

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HOSTS = "all: {children: {slurm_compute: {hosts: {gpu1: {ansible_host: 192.0.2.1}}}}}\n"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site's folder."""
    folder = tmp_path / "site"
    for name, text in {
        "inventory/hosts.yml": HOSTS,
        "inventory/group_vars/all.yml": "hosts_timezone: UTC\n",
        "secrets/munge.key": "secret\n",
        "files/motd": "welcome\n",
        "logs/1.log": "a log\n",
        "reports/1.json": "{}\n",
        "inventory.lock": "",
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def found(site: Path, *options: str) -> dict[str, str]:
    """What a run of the site depends on."""
    return inputs(Playbook(collection() / "playbooks/site.yml", [str(site / "inventory")], list(options)))


def write(name: str, text: str) -> Callable[[Path], None]:
    def change(site: Path) -> None:
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (write("inventory/group_vars/all.yml", "hosts_timezone: CET\n"), "all.yml"),
        (write("inventory/host_vars/gpu1.yml", "hosts_limits: {}\n"), "gpu1.yml"),
        (write("inventory/hosts.yml", HOSTS.replace(".1}", ".2}")), "hosts.yml"),
        (write("secrets/munge.key", "another\n"), "secrets/munge.key"),
        (write("secrets/new", "new\n"), "secrets/new"),
        (write("files/motd", "go away\n"), "files/motd"),
        (lambda site: (site / "secrets/munge.key").unlink(), "secrets/munge.key"),
        (lambda site: (site / "secrets/munge.key").chmod(0o666), "secrets/munge.key"),
        (write("ansible.cfg", "[defaults]\nforks = 3\n"), "ansible.cfg"),
    ],
)
def test_each_change_of_the_site_is_seen(site: Path, change: Callable[[Path], None], said: str) -> None:
    before = found(site)
    change(site)
    assert said in str(difference(before, found(site)))


@pytest.mark.parametrize("name", ["logs/2.log", "reports/2.json", "inventory.lock", ".git/HEAD", "logs/last_run/x"])
def test_what_runs_write_is_no_change(site: Path, name: str) -> None:
    before = found(site)
    write(name, "written\n")(site)
    assert not difference(before, found(site))


def test_a_file_elsewhere_that_a_variable_names_counts(site: Path, tmp_path: Path) -> None:
    named = tmp_path / "certificate.pem"
    named.write_text("one\n")
    write("inventory/group_vars/all.yml", f"tls_custom: {{cert: [{named}]}}\n")(site)
    before = found(site)
    named.write_text("two\n")
    assert difference(before, found(site)) == str(named)


def test_a_folder_of_secrets_elsewhere_counts(site: Path, tmp_path: Path) -> None:
    write("inventory/group_vars/all.yml", f"cluster_secrets_dir: {tmp_path / 'elsewhere'}\n")(site)
    (tmp_path / "elsewhere").mkdir()
    before = found(site)
    (tmp_path / "elsewhere/munge.key").write_text("secret\n")
    assert difference(before, found(site)).endswith("munge.key")


def test_a_file_of_variables_on_the_command_line_counts(site: Path, tmp_path: Path) -> None:
    extra = tmp_path / "extra.yml"
    extra.write_text("x: 1\n")
    before = found(site, "-e", f"@{extra}")
    extra.write_text("x: 2\n")
    assert difference(before, found(site, "-e", f"@{extra}")) == str(extra)


def test_options_count_unless_they_only_show_more(site: Path) -> None:
    before = found(site)
    assert not difference(before, found(site, "--diff", "-v"))
    assert difference(before, found(site, "-e", "hosts_timezone=CET")) == "the options"
    assert difference(before, found(site, "--skip-tags", "slurm")) == "the options"


def test_the_environment_of_ansible_counts(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = found(site)
    monkeypatch.setenv("ANSIBLE_BECOME_EXE", "/bin/doas")
    assert "the environment" in difference(before, found(site))


def test_code_and_programs_count(site: Path) -> None:
    known = found(site)
    assert str(collection() / "roles/slurm/tasks/main.yml") in known
    assert str(collection() / "plugins/modules/files.py") in known
    assert str(collection() / "playbooks/base.yml") in known
    assert any(name.endswith("busbar/run/unchanged.py") for name in known)
    assert "the versions of programs" in known


@pytest.mark.parametrize(
    "value",
    ["{{ lookup('pipe', 'date') }}", "{{ query('env', 'X') }}", "{{ now() }}", "{{ somewhere }}/motd"],
)
def test_what_a_variable_looks_up_cannot_be_told(site: Path, value: str) -> None:
    write("inventory/group_vars/all.yml", f'hosts_motd: "{value}"\n')(site)
    with pytest.raises(UnsureError, match="a variable looks something up"):
        found(site)


@pytest.mark.parametrize(
    "value",
    ["{{ cluster_dir }}/files/motd", "{{ lookup('busbar.cluster.secret', 'x') }}", "{{ groups['all'] | length }}"],
)
def test_what_lies_in_the_site_or_in_the_inventory_can(site: Path, value: str) -> None:
    write("inventory/group_vars/all.yml", f'hosts_motd: "{value}"\n')(site)
    assert found(site)


def test_an_inventory_that_is_no_file_cannot_be_told() -> None:
    with pytest.raises(UnsureError, match="no file"):
        inputs(Playbook(collection() / "playbooks/site.yml", ["gpu1,"], []))


def test_too_much_cannot_be_told(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("busbar.run.inputs._MOST_FILES", 10)
    with pytest.raises(UnsureError, match="too many files"):
        found(site)
