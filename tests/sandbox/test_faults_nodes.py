"""Faults of single nodes, injected while a user's job runs: named with host and cause, healed by the next run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from faulted import Fault, Work, prove, prove_rest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("preflight", "hosts")

KEYS = "/home/admin/.ssh/authorized_keys"
# What an admin types who looks, and who has put something right on one node.
LOOK = ("preflight", "--limit", "gpu2")
NAMES = ("base", "-t", "hosts", "--limit", "gpu2")
FAULTS = [
    Fault(
        "an SSH key that is revoked",
        says="gpu2: ansible_host: cannot be reached: …Permission denied…remedy: install your key",
        heals="`busbar ssh bootstrap`",
        node="gpu2",
        breaks=f"mv {KEYS} {KEYS}.gone",
        mends=f"mv {KEYS}.gone {KEYS}",
        run=LOOK,
        again=NAMES,
    ),
]


@pytest.fixture(scope="module")
def work(sandbox: Cluster) -> Iterator[Work]:
    """What nobody may lose."""
    there = Work(sandbox)
    yield there
    there.end()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_named_nothing_is_lost_and_the_next_run_heals(sandbox: Cluster, work: Work, fault: Fault) -> None:
    prove(sandbox, work, fault)


def test_the_run_after_all_of_them_has_nothing_to_do(sandbox: Cluster, work: Work) -> None:
    prove_rest(sandbox, *NAMES)
    work.is_whole()
