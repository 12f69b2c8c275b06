"""A file server and its client with their own kernels, created when a test first requests them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from busbar.errors import UsageError
from virtual_machines import CLIENT, PROGRAM, SERVER, Machines
from vm_pair import qemu
from vm_pair.state import load

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_NAME = "test-vm"
SITE = Path(__file__).with_name("site.yml")


@pytest.fixture(scope="session")
def machines() -> Iterator[Machines]:
    """Return the provisioned machines named by BUSBAR_TEST_VMS (default: test-vm); cables are connected at the end.

    Existing machines are used unchanged. New machines stay for the next tests: `scripts/test` removes them.
    """
    name = os.environ.get("BUSBAR_TEST_VMS", DEFAULT_NAME)
    try:
        made = Machines(load(name))
    except UsageError:
        done = subprocess.run([PROGRAM, "up", "--name", name], check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        made = Machines(load(name))
        done = made.play(SITE)
        if done.returncode:
            subprocess.run([PROGRAM, "down", "--name", name], check=False, capture_output=True)
            pytest.fail(f"the first run ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    yield made
    for machine in (SERVER, CLIENT):
        qemu.set_cable(made.group, made.group.machine(machine), plugged=True)
