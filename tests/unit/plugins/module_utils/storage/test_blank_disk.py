"""Tests that blank disks are recognised by samples of their content, not only by missing signatures."""

from __future__ import annotations

import itertools
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.storage.blank_disk import data_offset, sample_places
from ansible_collections.busbar.cluster.plugins.module_utils.storage.scratch_host import read_data
from role_programs import install_program

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20
SIZES = [0, 512, 4096, 3 * MIB + 512, 100 * MIB, 8 << 30, 15_360_950_534_144]


def image(folder: Path, size: int, *written: tuple[int, bytes]) -> str:
    """Make a sparse disk image with some data."""
    path = folder / "disk.img"
    with path.open("wb") as stream:
        stream.truncate(size)
        for offset, data in written:
            stream.seek(offset)
            stream.write(data)
    return str(path)


@pytest.mark.parametrize("size", SIZES)
def test_sample_places_are_ordered_limited_and_within_the_disk(size: int) -> None:
    places = sample_places(size)
    assert all(length > 0 and offset + length <= size for offset, length in places)
    assert all(first[0] + first[1] <= second[0] for first, second in itertools.pairwise(places))
    assert sum(length for _, length in places) <= 53 * MIB
    assert len(places) < 300
    if size:
        assert places[0][0] == 0
        assert sum(places[-1]) == size


def test_small_disk_is_read_completely() -> None:
    assert sum(length for _, length in sample_places(30 * MIB + 512)) == 30 * MIB + 512


@pytest.mark.parametrize("size", [0, 4096, 100 * MIB, 8 << 30])
def test_holes_are_blank(tmp_path: Path, size: int) -> None:
    assert data_offset(image(tmp_path, size)) is None


@pytest.mark.parametrize("offset", [0, 511, 5 * MIB + 3, 32 * MIB - 1, (8 << 30) - 1, (8 << 30) - 4 * MIB, 2 << 30])
def test_single_byte_at_a_sampled_place_is_data(tmp_path: Path, offset: int) -> None:
    assert data_offset(image(tmp_path, 8 << 30, (offset, b"x"))) == offset


def test_sparse_encrypted_data_on_a_large_disk_is_found(tmp_path: Path) -> None:
    """Plain dm-crypt has no header; only written blocks hold random data, here 2 % of the disk."""
    start, size = 1 << 30, 4 << 30
    noise = bytes(range(1, 256)) * 4
    path = image(tmp_path, size, *((start + at, noise) for at in range(0, size // 50, 4096)))
    found = data_offset(path)
    assert found is not None
    assert start <= found < start + size // 50 + MIB


def test_boot_program_gives_the_same_result(tmp_path: Path) -> None:
    program = install_program("scratch/files/blank_disk.py", tmp_path / "blank_disk")

    def run(path: str) -> tuple[int, str]:
        done = subprocess.run([sys.executable, "-IB", str(program), path], check=False, capture_output=True, text=True)
        return done.returncode, done.stdout

    assert run(image(tmp_path, 64 * MIB)) == (0, "")
    assert run(image(tmp_path, 64 * MIB, (4711, b"x"))) == (0, "4711\n")
    assert run(str(tmp_path / "none")) == (1, "")


def test_unreadable_disk_is_not_blank(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        read_data(str(tmp_path / "none"), [])
    known = [{"device": "x", "type": "xfs", "label": "", "uuid": ""}]
    assert read_data(str(tmp_path / "none"), known) is None
