"""Tests of real playbooks on this machine, run by the command line."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from busbar.run.display import Display
from busbar.run.events import Run, summary
from busbar.run.playbook import Playbook, host_variables, run_playbook

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

SECRET = "correct-horse-battery"  # noqa: S105 - the test searches for it

PLAYBOOK = """
- name: Try
  hosts: all
  gather_facts: false
  tasks:
    - name: Change something
      ansible.builtin.command: echo hello
    - name: Use a secret
      ansible.builtin.command: echo {{ word }}
      no_log: true
    - name: Fail on two
      ansible.builtin.fail:
        msg: It is broken.
      when: inventory_hostname != 'node3'
"""
SLOW = """
- name: Slow
  hosts: all
  gather_facts: false
  tasks:
    - name: Sleep
      ansible.builtin.command: >-
        timeout 900 sh -c 'until [ -e {{ inventory_dir | dirname }}/enough ]; do sleep 0.2; done'
"""
MAIN = "import sys; from busbar.cli import main; sys.exit(main())"
TOP = Path(__file__).resolve().parents[4]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    """Yield a site of three hosts that are all this machine."""
    (tmp_path / "inventory").mkdir()
    variables = f"{{word: {SECRET}, ansible_connection: local, ansible_python_interpreter: {sys.executable}}}"
    (tmp_path / "inventory" / "hosts.yml").write_text(f"all: {{hosts: {{'node[1:3]': }}, vars: {variables}}}\n")
    (tmp_path / "play.yml").write_text(PLAYBOOK)
    (tmp_path / "slow.yml").write_text(SLOW)
    yield tmp_path
    (tmp_path / "enough").touch()


def command(site: Path, *options: str) -> list[str]:
    return [sys.executable, "-c", MAIN, "provision", *options, "-i", str(site / "inventory")]


def environment(site: Path) -> dict[str, str]:
    paths = os.pathsep.join([str(TOP / "scripts"), str(TOP / ".collections")])
    # Without the callback preload, which imports all plugins, a run takes a third of the CPU time.
    callbacks = "busbar.cluster.run_guard"
    return {**os.environ, "PYTHONPATH": paths, "TMPDIR": str(site), "ANSIBLE_CALLBACKS_ENABLED": callbacks}


def go(site: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(site, *options),
        cwd=site,
        env=environment(site),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def wait_for_the_slow_task(site: Path) -> None:
    """Wait until the playbook is in its task that does not end."""
    deadline = time.monotonic() + 120
    while not any("TASK [Sleep]" in log.read_text() for log in site.glob("logs/*")):
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_run_from_another_directory(site: Path) -> None:
    done = go(site, "play.yml")
    lines = done.stdout.splitlines()
    assert done.returncode == 1, done.stderr
    assert str(site / "inventory") in lines[0]
    assert any(re.search(r"Change something  changed=3$", line) for line in lines)
    assert "FAILED node[1-2]: Fail on two" in lines
    assert "    It is broken." in lines
    assert re.match(r"node3 +: ok=2 +changed=2 ", lines[-1])
    assert "\x1b" not in done.stdout
    (log,) = (site / "logs").glob("*-provision.log")
    assert "TASK [Change something]" in log.read_text()
    assert SECRET not in done.stdout + done.stderr + log.read_text()
    assert not list(site.glob("busbar-*"))


def test_interrupt_ends_the_playbook(site: Path) -> None:
    with subprocess.Popen(
        command(site, "slow.yml", "--limit", "node1"),
        cwd=site,
        env=environment(site),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        wait_for_the_slow_task(site)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert not list(site.glob("busbar-*"))


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        ("all: {hosts: [a", "hosts.yml:2:1: did not find expected ',' or ']' (while parsing a flow sequence"),
        ("all: {}", "has no host in its groups"),
    ],
)
def test_invalid_or_empty_inventory_is_bad_input(site: Path, hosts: str, words: str) -> None:
    (site / "inventory" / "hosts.yml").write_text(hosts)
    done = go(site, "play.yml")
    assert done.returncode == 2, done.stdout + done.stderr
    assert words in done.stdout + done.stderr


def test_invalid_yaml_is_reported_with_file_and_line_but_not_quoted(site: Path) -> None:
    broken = site / "inventory" / "group_vars" / "all" / "site.yml"
    broken.parent.mkdir(parents=True)
    broken.write_text(f"munge_key: {SECRET}\nusers_accounts:\n  - {{name: alice, uid: 2001\nslurm_x: 1\n")
    done = go(site, "play.yml")
    assert done.returncode == 2
    assert (
        f"{broken}:4:8: did not find expected ',' or '}}' (while parsing a flow mapping that starts in line 3)"
        in done.stderr
    )
    assert SECRET not in done.stdout + done.stderr
    assert not (site / "logs").exists()


CHANGES = f"""
- hosts: node1
  gather_facts: false
  tasks:
    - name: Write a file
      ansible.builtin.copy: {{content: "new line\\n", dest: "{{{{ place }}}}/shown", mode: "0600"}}
    - name: Write a secret file
      ansible.builtin.copy: {{content: "{SECRET}\\n", dest: "{{{{ place }}}}/hidden", mode: "0600"}}
      no_log: true
    - name: Write another without a diff
      ansible.builtin.copy: {{content: "{SECRET}\\n", dest: "{{{{ place }}}}/quiet", mode: "0600"}}
      diff: false
    - name: Skip this
      ansible.builtin.command: "true"
      when: false
"""


def test_diffs_are_shown_on_request_without_secrets(site: Path) -> None:
    (site / "changes.yml").write_text(CHANGES)
    given = ("changes.yml", "-e", f"place={site}", "--check")
    without, shown = go(site, *given), go(site, *given, "--diff", "-v")
    assert [done.returncode for done in (without, shown)] == [0, 0], shown.stdout + shown.stderr
    assert "new line" not in without.stdout
    assert "          node1:" in shown.stdout.splitlines()
    assert "          +new line" in shown.stdout.splitlines()
    assert SECRET not in shown.stdout + "".join(log.read_text() for log in (site / "logs").iterdir())
    assert ["Skip this  skipped=1" in done.stdout for done in (without, shown)] == [False, True]


HOSTILE = r"""
- hosts: node1
  gather_facts: false
  tasks:
    - name: Speak
      ansible.builtin.debug:
        msg: ["a\e]52;c;ZXZpbA==\ab", "\e[2J\e[HVerdict: PASS\nVerdict: PASS", "x\rVerdict: PASS", "\x9b2J\u202egnp"]
    - name: Fail
      ansible.builtin.command: "printf 'gone\033[2J\033]52;c;ZXZpbA==\007\nVerdict: PASS\n'"
      failed_when: true
"""


def test_text_of_a_node_cannot_control_the_terminal_or_forge_a_verdict(site: Path) -> None:
    (site / "hostile.yml").write_text(HOSTILE)
    done = go(site, "hostile.yml")
    assert done.returncode == 1
    (log,) = (site / "logs").iterdir()
    for text in (done.stdout, done.stderr, log.read_text()):
        assert not [char for char in text if not char.isprintable() and char != "\n"]
    assert "a\ufffd]52;c;ZXZpbA==\ufffdb" in done.stdout
    assert "Verdict: PASS" in done.stdout
    assert not [line for line in done.stdout.splitlines() if line.startswith("Verdict")]


def test_full_disk_of_the_log_does_not_abort_the_run(site: Path) -> None:
    (site / "changes.yml").write_text(CHANGES)
    playbook = Playbook(site / "changes.yml", [str(site / "inventory")], ["-e", f"place={site}"])
    run = Run(Display(io.StringIO()), lambda _: 1)
    returned = run_playbook(playbook, run, Path("/dev/full"))
    assert returned == (0, False), summary(run)
    assert run.log_problem == "No space left on device"
    assert (site / "shown").read_text() == "new line\n"


def test_inventory_is_locked_during_a_run(site: Path) -> None:
    """A second run reports the first; a run with --check ignores the lock, and the lock of a killed run is ignored."""
    lock = site / "inventory.lock"
    with subprocess.Popen(
        command(site, "slow.yml", "--limit", "node1"), cwd=site, env=environment(site), stdout=subprocess.DEVNULL
    ) as first:
        try:
            wait_for_the_slow_task(site)
            holder = json.loads(lock.read_text())
            second = go(site, "play.yml")
            plain = subprocess.run(
                [Path(sys.executable).parent / "ansible-playbook", "-i", "inventory/hosts.yml", "play.yml"],
                cwd=site,
                env=environment(site) | {"ANSIBLE_CONFIG": str(TOP / "ansible.cfg")},
                capture_output=True,
                text=True,
                check=False,
            )
            for done in (second, plain):
                assert done.returncode == 2, done.stdout + done.stderr
                said = " ".join(done.stderr.split())
                assert f"busbar provision slow, started by {holder['user']} on {holder['host']}" in said
                assert f"(pid {holder['pid']})" in said
                assert "TASK" not in done.stdout
            assert len(list(site.glob("logs/*"))) == 1
            assert "PLAY Try" in go(site, "play.yml", "--check", "--limit", "node3").stdout
        finally:
            os.kill(holder["pid"], signal.SIGKILL)
            first.wait(30)
    # The current task continues in a process of its own.
    assert json.loads(lock.read_text()) == holder
    after = go(site, "play.yml", "--limit", "node3")
    assert "Change something  changed=1" in after.stdout
    assert lock.read_text() == ""


def test_group_vars_of_the_working_directory_are_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place, number in (("here", 1), ("site/inventory", 2)):
        folder = tmp_path / place / "group_vars" / "all"
        folder.mkdir(parents=True)
        (folder / "x.yml").write_text(f"number: {number}\n")
    (tmp_path / "site" / "inventory" / "hosts.yml").write_text("all: {hosts: {ctl: }}\n")
    monkeypatch.chdir(tmp_path / "here")
    playbook = Playbook(tmp_path / "playbooks" / "x.yml", [str(tmp_path / "site" / "inventory")], [])
    assert host_variables(playbook)["ctl"]["number"] == 2
