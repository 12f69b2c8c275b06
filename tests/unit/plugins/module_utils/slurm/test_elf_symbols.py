"""Tests of reading the Slurm release of a plugin from its ELF file."""

from __future__ import annotations

import struct

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.elf_symbols import exported_number, slurm_of_plugin

NAMES = b"\0plugin_version\0other\0"


def library(number: int, order: str = "<", symbol: int = 1) -> bytes:
    """Return a 64-bit ELF file with one dynamic symbol: header, version number, names, symbols, sections."""
    number_at, names_at = 64, 72
    symbols_at = names_at + len(NAMES)
    sections_at = symbols_at + 48
    magic = b"\x7fELF" + bytes([2, 1 if order == "<" else 2, 1]) + bytes(9)
    header = magic + struct.pack(order + "HHIQQQIHHHHHH", 3, 62, 1, 0, 0, sections_at, 0, 64, 0, 0, 64, 4, 0)
    symbols = bytes(24) + struct.pack(order + "IBBHQQ", symbol, 17, 0, 1, 0x1000, 4)
    rows = [
        (0, 0, 0, 0, 0, 0),
        (0, 1, 2, 0x1000, number_at, 8),
        (0, 11, 2, 0, symbols_at, 48),
        (0, 3, 2, 0, names_at, 22),
    ]
    sections = b"".join(
        struct.pack(order + "IIQQQQIIQQ", *row, 3 if row[1] == 11 else 0, 0, 1, 24 if row[1] == 11 else 0)
        for row in rows
    )
    return header + struct.pack(order + "II", number, 0) + NAMES + symbols + sections


@pytest.mark.parametrize(
    ("number", "order", "version"),
    [(0x180B05, "<", "24.11.5"), (0x160508, "<", "22.05.8"), (0x190500, ">", "25.05.0")],
)
def test_version_of_a_plugin(number: int, order: str, version: str) -> None:
    assert slurm_of_plugin(library(number, order)) == version


def test_symbol_of_another_name_is_not_the_slurm_version() -> None:
    data = library(7, symbol=16)
    assert exported_number(data, "other") == 7
    with pytest.raises(ValueError, match="not a Slurm plugin"):
        slurm_of_plugin(data)


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"", "not a shared object"), (b"#!/bin/sh\n" * 20, "not a shared object"), (library(1)[:200], "damaged")],
)
def test_file_that_is_not_a_library_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        slurm_of_plugin(data)
