"""What modules import: they run with the plain Python of a node, which has the standard library and no more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[4]
# What the provisioning host has and a node need not have.
FOREIGN = ("ClusterShell", "jinja2", "yaml", "paramiko", "ansible_runner", "jsonschema")
PROGRAM = """
import importlib, sys
for name in {foreign!r}:
    sys.modules[name] = None
import ansible.module_utils.basic
importlib.import_module("ansible_collections.busbar.cluster.plugins.modules." + {name!r})
"""


@pytest.mark.parametrize("name", sorted(path.stem for path in (TOP / "plugins" / "modules").glob("*.py")))
def test_a_module_needs_the_standard_library_only(name: str) -> None:
    program = PROGRAM.format(foreign=FOREIGN, name=name)
    here = {**os.environ, "PYTHONPATH": str(TOP / ".collections")}
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, env=here)
    assert done.returncode == 0, done.stderr[-1000:]
