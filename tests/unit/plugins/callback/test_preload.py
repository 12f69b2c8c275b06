"""Tests of the preload callback: workers inherit plugins and profiles in memory with busbar's ansible.cfg."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TOP = Path(__file__).resolve().parents[4]
LOOKUP = """\
import gc, sys
from ansible.plugins.lookup import LookupBase

class LookupModule(LookupBase):
    def run(self, terms, variables=None, **kwargs):
        plugins = "ansible_collections.busbar.cluster.plugins"
        prefix = f"{plugins}.filter."
        profiles = sys.modules.get(f"{plugins}.plugin_utils.engine.catalogue.merged_profiles")
        read = profiles.shipped_profile.cache_info().currsize if profiles else 0
        filters = sum(name.startswith(prefix) for name in sys.modules)
        return [gc.isenabled(), filters, read, "jsonschema" in sys.modules]
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
def test_worker_has_filters_and_profiles_loaded_and_garbage_collection_off(tmp_path: Path, *, enabled: bool) -> None:
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
    profiles = list((TOP / "plugins/plugin_utils/engine/catalogue/hardware").glob("*.yml"))
    expected = f"found [False, {len(filters)}, {len(profiles)}, True]" if enabled else "found [True, 0, 0, False]"
    assert expected in done.stdout, done.stdout
    assert "WARNING" not in done.stderr, done.stderr


WHERE = """\
import os
from ansible.plugins.loader import connection_loader
from ansible.playbook.play_context import PlayContext
from ansible.plugins.lookup import LookupBase

class LookupModule(LookupBase):
    def run(self, terms, variables=None, **kwargs):
        ssh = connection_loader.get("ssh", PlayContext())
        ssh.set_options()
        folder = ssh.get_option("control_path_dir")
        return [f"{folder} {oct(os.stat(folder).st_mode)[-4:]}" if os.path.isdir(folder) else folder]
"""


def _control_paths(tmp_path: Path, name: str, **environment: str) -> str:
    """Return the directory of a run's SSH control sockets, and its mode."""
    folder = tmp_path / name
    (folder / "lookup_plugins").mkdir(parents=True)
    (folder / "lookup_plugins/found.py").write_text(WHERE)
    (folder / "play.yml").write_text(PLAY)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
    kept |= {"ANSIBLE_CONFIG": str(TOP / "ansible.cfg"), "HOME": str(tmp_path), **environment}
    command = ["ansible-playbook", "-i", "localhost,", "-c", "local", str(folder / "play.yml")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=TOP, env=kept)
    found = re.search(r"found \['(/[^']*)'\]", " ".join(done.stdout.split()))
    assert found, done.stdout + done.stderr
    return found[1]


def test_runs_do_not_share_ssh_connections(tmp_path: Path) -> None:
    """A persistent connection would hide a changed host key."""
    shown = [_control_paths(tmp_path, name).split() for name in ("a", "b")]
    assert shown[0][0] != shown[1][0]
    for folder, mode in shown:
        assert mode == "0700"
        assert len(f"{folder}/0123456789.0123456789abcdef") < 108
        assert not Path(folder).exists()


def test_configured_control_path_directory_is_kept(tmp_path: Path) -> None:
    assert _control_paths(tmp_path, "a", ANSIBLE_SSH_CONTROL_PATH_DIR="/nowhere/cp") == "/nowhere/cp"


def _peak_mib(tmp_path: Path, hosts: int, callbacks: str) -> float:
    """Return the peak memory of a run with a role that has a long argument specification."""
    folder = tmp_path / f"{hosts}"
    (folder / "roles/wide/meta").mkdir(parents=True)
    (folder / "roles/wide/tasks").mkdir()
    options = {f"wide_{i}": {"type": "str", "description": [f"What {i} is."], "default": f"{i}"} for i in range(1500)}
    specs = {"argument_specs": {"main": {"short_description": "Wide", "options": options}}}
    (folder / "roles/wide/meta/argument_specs.yml").write_text(json.dumps(specs))
    (folder / "roles/wide/tasks/main.yml").write_text("[]")
    (folder / "play.yml").write_text("- hosts: all\n  gather_facts: false\n  roles: [wide]\n")
    kept = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
    kept |= {"ANSIBLE_CONFIG": str(TOP / "ansible.cfg"), "ANSIBLE_CALLBACKS_ENABLED": callbacks, "ANSIBLE_FORKS": "2"}
    names = ",".join(f"h{i}" for i in range(hosts))
    with (folder / "said").open("wb") as said:
        run = subprocess.Popen(
            ["ansible-playbook", "-i", f"{names},", str(folder / "play.yml")],
            cwd=TOP,
            env=kept,
            stdout=said,
            stderr=subprocess.STDOUT,
        )
        # Resource usage is unsuitable because it includes the parent process.
        peak = 0
        while run.poll() is None:
            with contextlib.suppress(OSError):
                found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{run.pid}/status").read_text("ascii"))
                peak = max(peak, int(found[1]) if found else 0)
            time.sleep(0.02)
    told = (folder / "said").read_text("utf-8")
    assert run.returncode == 0, told
    assert told.count("ok=1 ") == hosts, told
    return peak / 1024


def test_memory_does_not_grow_with_a_specification_per_host(tmp_path: Path) -> None:
    grown = {}
    for callbacks in ("busbar.cluster.preload", "ansible.builtin.minimal"):
        few, many = (_peak_mib(tmp_path / callbacks, hosts, callbacks) for hosts in (4, 24))
        grown[callbacks] = many - few
    assert grown["busbar.cluster.preload"] < 10, grown
    # Without the callback memory must grow; otherwise the test would pass with an Ansible that keeps nothing.
    assert grown["ansible.builtin.minimal"] > 20, grown
