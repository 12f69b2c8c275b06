"""Tests of the program that rotates and removes received journals, with a stand-in for systemctl."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING

import jinja2
import pytest
from ansible.plugins.filter.core import FilterModule as Core
from ansible.plugins.filter.mathstuff import FilterModule as Math
from busbar.paths import collection
from executables import executable

if TYPE_CHECKING:
    from pathlib import Path

TEMPLATE = collection() / "roles/journal_remote/templates/usr/local/lib/busbar/journal_tidy.j2"
MIB = 1 << 20


class Receiver:
    """A store of journals, the calls of systemctl, and the program."""

    def __init__(self, folder: Path) -> None:
        """Create an empty store."""
        self.folder, self.store, self.calls = folder, folder / "store", folder / "calls"
        self.store.mkdir()
        executable(folder / "systemctl", f'#!/bin/sh\necho "$@" >>{self.calls}\n')

    def journal(self, name: str, mib: int = 10, age_days: float = 0) -> None:
        """Add a journal; its age is that of its last write."""
        path = self.store / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x" * (mib * MIB))
        os.utime(path, (time.time() - age_days * 86400,) * 2)

    def tidy(self, *arguments: str, **options: object) -> list[str]:
        """Run the program; return the remaining journals, closed ones without the time in their names."""
        environment = jinja2.Environment(autoescape=False, undefined=jinja2.StrictUndefined)  # noqa: S701 - a shell script
        environment.filters |= {**Core().filters(), **Math().filters()}
        given = {"max_use": "1T", "keep_free": "1", "max_age_days": 30, "rotate_days": 7} | options
        variables = {f"journal_remote_{name}": value for name, value in given.items()}
        text = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
            ansible_managed="", __journal_remote_store=self.store, **variables
        )
        path = f"{self.folder}:{os.environ['PATH']}"
        subprocess.run(["sh", "-c", text, "tidy", *arguments], check=True, env=os.environ | {"PATH": path}, timeout=60)
        return sorted(str(found.relative_to(self.store)) for found in self.store.rglob("*") if found.is_file())


@pytest.fixture
def receiver(tmp_path: Path) -> Receiver:
    """Return a receiver without journals."""
    return Receiver(tmp_path)


def test_an_empty_store_is_left_alone(receiver: Receiver) -> None:
    assert receiver.tidy(max_use="1") == []
    receiver.store.rmdir()
    assert receiver.tidy() == []


def test_closed_journals_are_removed_by_age(receiver: Receiver) -> None:
    receiver.journal("gpu1/remote@1.journal", age_days=23.5)
    receiver.journal("gpu1/remote@2.journal", age_days=22.5)
    receiver.journal("gpu1/remote.journal", age_days=40)
    receiver.journal("remote@old.journal", age_days=40)
    assert receiver.tidy() == ["gpu1/remote.journal", "gpu1/remote@2.journal"]


def test_oldest_journal_of_the_largest_host_is_removed(receiver: Receiver) -> None:
    receiver.journal("gpu1/remote@1.journal", age_days=9)
    for number in range(5):
        receiver.journal(f"gpu9/remote@{number}.journal", age_days=5 - number)
    assert receiver.tidy(max_use="31M") == [
        *("gpu1/remote@1.journal", "gpu9/remote@3.journal", "gpu9/remote@4.journal"),
    ]


def test_flooding_host_loses_its_open_journal_first(receiver: Receiver) -> None:
    receiver.journal("gpu1/remote@1.journal", age_days=9)
    receiver.journal("gpu9/remote.journal", mib=60)
    assert receiver.tidy(max_use="40M") == ["gpu1/remote@1.journal"]
    unit = "busbar-journal@gpu9"
    assert receiver.calls.read_text().splitlines() == [f"stop {unit}.socket {unit}.service", f"start {unit}.socket"]


def test_small_open_journals_stay_open(receiver: Receiver) -> None:
    receiver.journal("gpu1/remote.journal", mib=16)
    assert receiver.tidy(max_use="1M", keep_free="1000T") == ["gpu1/remote.journal"]
    assert not receiver.calls.exists()


def test_links_are_not_followed(receiver: Receiver, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "remote@1.journal").write_bytes(b"x" * MIB)
    (receiver.store / "gpu2").symlink_to(elsewhere)
    receiver.tidy(max_use="1", max_age_days=7)
    assert (elsewhere / "remote@1.journal").exists()


def test_option_all_closes_each_journal(receiver: Receiver) -> None:
    receiver.journal("gpu1/remote.journal", mib=1)
    assert receiver.tidy() == ["gpu1/remote.journal"]
    (name,) = receiver.tidy("all")
    assert name.startswith("gpu1/remote@")
