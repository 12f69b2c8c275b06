"""What the processes that Ansible forks for tasks find in memory when a playbook starts with our ansible.cfg."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[4]
LOOKUP = """\
import gc, sys
from ansible.plugins.lookup import LookupBase

class LookupModule(LookupBase):
    def run(self, terms, variables=None, **kwargs):
        prefix = "ansible_collections.busbar.cluster.plugins.filter."
        return [gc.isenabled(), sum(name.startswith(prefix) for name in sys.modules)]
"""
PLAY = """\
- hosts: localhost
  gather_facts: false
  tasks:
    - name: Look
      ansible.builtin.assert:
        that: false
        fail_msg: "found {{ lookup('found', wantlist=True) }}"
"""


@pytest.mark.parametrize("enabled", [True, False])
def test_a_task_finds_all_filters_and_no_garbage_collector(tmp_path: Path, *, enabled: bool) -> None:
    (tmp_path / "lookup_plugins").mkdir()
    (tmp_path / "lookup_plugins/found.py").write_text(LOOKUP)
    (tmp_path / "play.yml").write_text(PLAY)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
    kept |= {"ANSIBLE_CONFIG": str(TOP / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    if not enabled:
        kept["ANSIBLE_CALLBACKS_ENABLED"] = "ansible.builtin.minimal"
    done = subprocess.run(
        ["ansible-playbook", "-i", "localhost,", "-c", "local", str(tmp_path / "play.yml")],
        check=False,
        capture_output=True,
        text=True,
        cwd=TOP,
        env=kept,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    filters = [path for path in (TOP / "plugins/filter").glob("*.py") if path.name != "__init__.py"]
    expected = f"found [False, {len(filters)}]" if enabled else "found [True, 0]"
    assert expected in done.stdout, done.stdout
    assert "WARNING" not in done.stderr, done.stderr
