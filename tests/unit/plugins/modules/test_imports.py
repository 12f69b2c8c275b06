"""Tests that modules import only the standard library, because they run with the system Python of a node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[4]
# Packages of the provisioning host that a node need not have.
FOREIGN = ("ClusterShell", "jinja2", "yaml", "paramiko", "ansible_runner", "jsonschema")
NAMES = sorted(path.stem for path in (TOP / "plugins" / "modules").glob("*.py"))
# Each module is imported in its own process, forked from one that has loaded Ansible's module utilities.
PROGRAM = """
import importlib, json, os, sys, traceback
foreign, names = json.loads(sys.argv[1])
sys.modules.update(dict.fromkeys(foreign))
import ansible.module_utils.basic
for name in names:
    number = os.fork()
    if not number:
        try:
            importlib.import_module("ansible_collections.busbar.cluster.plugins.modules." + name)
            os._exit(0)
        except BaseException:
            sys.stderr.write(traceback.format_exc()[-1000:])
            sys.stderr.flush()
            os._exit(1)
    print(name, os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]))
"""


@pytest.fixture(scope="module")
def imported() -> tuple[dict[str, str], str]:
    """Return the exit code of each module's import, and the errors."""
    here = {**os.environ, "PYTHONPATH": str(TOP / ".collections")}
    command = [sys.executable, "-c", PROGRAM, json.dumps([FOREIGN, NAMES])]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=here)
    return dict(line.split() for line in done.stdout.splitlines()), done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_module_imports_only_the_standard_library(name: str, imported: tuple[dict[str, str], str]) -> None:
    codes, said = imported
    assert codes.get(name) == "0", said
