"""Real playbooks on this machine, shared out over several processes."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
from busbar.run.display import PlainDisplay
from busbar.run.playbook import Playbook
from busbar.run.slices.crew import Crew, Outcome
from busbar.run.slices.share_out import Shares

HOSTS = ["ctl", "gpu1", "gpu2", "gpu3", "gpu4"]
SHARES = Shares(["ctl", "gpu1"], [["gpu2"], ["gpu3", "gpu4"]])
NOTE = "sh -c 'echo {{ inventory_hostname }} $(date +%%s.%%N) >> {{ inventory_dir | dirname }}/%s'"
TWO_PLAYS = f"""
- name: First
  hosts: all
  gather_facts: false
  tasks:
    - name: Take some time
      ansible.builtin.command: sleep {{{{ 1 if inventory_hostname == 'gpu4' else 0 }}}}
    - name: Note the first play
      ansible.builtin.command: {NOTE % "first"}
- name: Second
  hosts: all
  gather_facts: false
  tasks:
    - name: Note the second play
      ansible.builtin.command: {NOTE % "second"}
"""
ONCE = """
- name: Once
  hosts: all
  gather_facts: false
  tasks:
    - name: Read
      ansible.builtin.slurp:
        src: "{{ inventory_dir | dirname }}/number"
      register: found
      run_once: true
    - name: Write one more, after a while
      ansible.builtin.shell: >-
        sleep 0.5; echo {{ found.content | b64decode | int + 1 }} >{{ inventory_dir | dirname }}/number
      run_once: true
"""
FATAL = """
- name: First
  hosts: all
  gather_facts: false
  any_errors_fatal: true
  tasks:
    - name: Fail on one
      ansible.builtin.fail:
        msg: It is broken.
      when: inventory_hostname == 'gpu3'
- name: Second
  hosts: all
  gather_facts: false
  tasks:
    - name: Never get here
      ansible.builtin.command: touch {{ inventory_dir | dirname }}/reached
"""
WAITS = """
- name: Wait
  hosts: all
  gather_facts: false
  tasks:
    - name: Note who is here
      ansible.builtin.shell: echo $PPID >> {{ inventory_dir | dirname }}/here-{{ inventory_hostname }}
    - name: Wait on one
      ansible.builtin.command: >-
        timeout 120 sh -c 'cd {{ inventory_dir | dirname }}; touch waits; until [ -e enough ]; do sleep 0.2; done'
      when: inventory_hostname == 'gpu2'
"""
LONGER = """
- name: Last
  hosts: gpu4
  gather_facts: false
  tasks:
    - name: Be the last by far
      ansible.builtin.command: sleep 5
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "inventory").mkdir()
    variables = f"{{ansible_connection: local, ansible_python_interpreter: {sys.executable}}}"
    names = ", ".join(f"{name}: " for name in HOSTS)
    (tmp_path / "inventory/hosts.yml").write_text(f"all: {{hosts: {{{names}}}, vars: {variables}}}\n")
    return tmp_path


def crew(site: Path, text: str, said: io.StringIO) -> Crew:
    (site / "play.yml").write_text(text)
    playbook = Playbook(site / "play.yml", [str(site / "inventory")], [])
    return Crew(playbook, SHARES, [], PlainDisplay(said), site / "log")


def worked(site: Path, text: str) -> tuple[Outcome, str]:
    said = io.StringIO()
    return crew(site, text, said).work(), said.getvalue()


def noted(path: Path) -> dict[str, float]:
    return {line.split()[0]: float(line.split()[1]) for line in path.read_text().splitlines()}


def until(path: Path, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"no {path.name}"
        time.sleep(0.1)


def test_all_hosts_are_configured_play_by_play(site: Path) -> None:
    done, said = worked(site, TWO_PLAYS)
    assert (done.returned, done.interrupted, done.stopped) == (0, False, False), said
    first, second = noted(site / "first"), noted(site / "second")
    assert sorted(first) == sorted(second) == sorted(HOSTS)
    assert max(first.values()) < min(second.values())
    assert max(first["ctl"], first["gpu1"]) < min(first["gpu2"], first["gpu3"], first["gpu4"])
    assert done.run.stats["ok"] == dict.fromkeys(HOSTS, 3)
    assert done.run.stats["changed"] == dict.fromkeys(HOSTS, 3)
    assert done.run.recap.splitlines()[0].startswith("PLAY RECAP")
    assert len(done.run.recap.splitlines()) == 6
    assert "slice 2: 2 hosts: gpu[3-4]" in said
    assert "died" not in said
    assert "[slice 2] changed: [gpu4]" in (site / "log").read_text()


def test_a_slice_that_has_ended_is_not_begun_anew_while_others_work(site: Path) -> None:
    done, said = worked(site, LONGER)
    assert done.returned == 0, said
    assert "died" not in said


def test_what_is_done_once_is_done_by_one_slice_at_a_time(site: Path) -> None:
    (site / "number").write_text("0\n")
    done, said = worked(site, ONCE)
    assert done.returned == 0, said
    assert (site / "number").read_text() == "3\n"


def test_what_ends_a_run_ends_that_of_all_slices(site: Path) -> None:
    done, said = worked(site, FATAL)
    assert done.returned == 2, said
    assert done.stopped
    assert not (site / "reached").exists()
    assert [(failure.message, failure.hosts) for failure in done.run.failures] == [("It is broken.", ["gpu3"])]
    assert done.run.stats["failures"] == {"gpu3": 1}


def test_a_host_that_fails_holds_the_others_up_no_more_than_in_one_run(site: Path) -> None:
    done, said = worked(site, FATAL.replace("any_errors_fatal: true", "any_errors_fatal: false"))
    assert (done.returned, done.stopped) == (2, False), said
    assert (site / "reached").exists()
    assert sorted(done.run.stats["ok"]) == ["ctl", "gpu1", "gpu2", "gpu4"]


@pytest.mark.parametrize("victim", ["ansible-playbook", "worker"])
def test_a_slice_that_is_killed_is_taken_over(site: Path, victim: str) -> None:
    said = io.StringIO()
    run = crew(site, WAITS, said)

    def kill() -> None:
        until(site / "waits")
        link = run._slices["slice 1"].link  # noqa: SLF001 - who it is nobody else knows
        assert link is not None
        assert link.pid is not None
        os.kill(link.pid if victim == "ansible-playbook" else link._process.pid, signal.SIGKILL)  # noqa: SLF001
        (site / "enough").touch()

    thread = threading.Thread(target=kill)
    thread.start()
    done = run.work()
    thread.join()
    assert (done.returned, done.stopped) == (0, False), said.getvalue()
    assert "slice 1 died:" in said.getvalue()
    assert "its 1 hosts are taken over here: gpu2" in said.getvalue()
    # What the first attempt changed is not forgotten.
    assert done.run.stats["changed"]["gpu2"] >= 3
    assert len((site / "here-gpu2").read_text().splitlines()) == 2
    assert len((site / "here-gpu3").read_text().splitlines()) == 1


def test_ctrl_c_ends_all_slices(site: Path) -> None:
    said = io.StringIO()
    run = crew(site, WAITS, said)

    def interrupt() -> None:
        until(site / "waits")
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    done = run.work()
    thread.join()
    assert done.interrupted
    # What the task itself had started on the host goes on, as after any run that is broken off.
    (site / "enough").touch()
    own = [_read(path) for path in Path("/proc").glob("[0-9]*/cmdline")]
    assert [words for words in own if b"ansible-playbook" in words and str(site).encode() in words] == []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_what_ansible_refuses_is_not_begun_anew(site: Path) -> None:
    done, said = worked(site, "- name: Wrong\n  hosts: all\n  nonsense: 1\n")
    assert done.returned in {1, 4}, said
    assert done.stopped
    assert "died" not in said
    assert "nonsense" in " ".join([*done.run.errors, *done.run.prelude])
