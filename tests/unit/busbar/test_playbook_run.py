"""A real playbook on this machine, through the command line."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SECRET = "correct-horse-battery"  # noqa: S105 - what the test looks for

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
      ansible.builtin.command: sleep 60
"""
MAIN = "import sys; from busbar.provision_command import register; import argparse; p = argparse.ArgumentParser(); \
register(p.add_subparsers()); a = p.parse_args(); sys.exit(a.run(a))"
TOP = Path(__file__).resolve().parents[3]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site of three hosts that are all this machine."""
    (tmp_path / "inventory").mkdir()
    variables = f"{{word: {SECRET}, ansible_connection: local, ansible_python_interpreter: {sys.executable}}}"
    (tmp_path / "inventory" / "hosts.yml").write_text(f"all: {{hosts: {{'node[1:3]': }}, vars: {variables}}}\n")
    (tmp_path / "play.yml").write_text(PLAYBOOK)
    (tmp_path / "slow.yml").write_text(SLOW)
    return tmp_path


def command(site: Path, *options: str) -> list[str]:
    return [sys.executable, "-c", MAIN, "provision", *options, "-i", str(site / "inventory")]


def environment(site: Path) -> dict[str, str]:
    paths = os.pathsep.join([str(TOP / "scripts"), str(TOP / ".collections")])
    return {**os.environ, "PYTHONPATH": paths, "TMPDIR": str(site)}


def test_a_run_from_another_directory(site: Path) -> None:
    done = subprocess.run(
        command(site, "play.yml"),
        cwd=site,
        env=environment(site),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
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


def test_an_interrupt_ends_the_playbook(site: Path) -> None:
    with subprocess.Popen(
        command(site, "slow.yml", "--limit", "node1"),
        cwd=site,
        env=environment(site),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        deadline = time.monotonic() + 30
        while not any("TASK [Sleep]" in log.read_text() for log in site.glob("logs/*")):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    assert process.returncode == 130
    assert not list(site.glob("busbar-*"))


@pytest.mark.parametrize(
    ("hosts", "words"), [("all: {hosts: [a", "Completely failed to parse"), ("all: {}", "the inventory has no host")]
)
def test_an_inventory_that_is_broken_or_empty_is_bad_input(site: Path, hosts: str, words: str) -> None:
    (site / "inventory" / "hosts.yml").write_text(hosts)
    done = subprocess.run(
        command(site, "play.yml"),
        cwd=site,
        env=environment(site),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2 or "UsageError" in done.stderr
    assert words in done.stdout + done.stderr
