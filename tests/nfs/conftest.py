"""The machines that these tests look at: a file server and its client with real kernels, made by molecule."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from busbar.errors import UsageError
from busbar.vm import qemu
from busbar.vm.state import load
from virtual_machines import CLIENT, SERVER, Machines

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_NAME = "test-vm"


@pytest.fixture(scope="session")
def machines() -> Iterator[Machines]:
    """The provisioned machines named by BUSBAR_TEST_VMS (default: test-vm); their cables are plugged at the end."""
    try:
        group = load(os.environ.get("BUSBAR_TEST_VMS", DEFAULT_NAME))
    except UsageError as exc:
        pytest.fail(f"{exc}; or let molecule make them: molecule test -s nfs")
    yield Machines(group)
    for machine in (SERVER, CLIENT):
        qemu.set_cable(group, group.machine(machine), plugged=True)
