"""Read exported numbers from the file of a shared object, because loading the object would run its code."""

from __future__ import annotations

import re
import struct

__all__ = ["exported_number", "header_release", "release_text", "slurm_of_plugin"]

_NUMBER = re.compile(r"^#define\s+SLURM_VERSION_NUMBER\s+(0x[0-9a-fA-F]+)", re.MULTILINE)
_MAGIC = b"\x7fELF"
_DYNSYM = 11
_SHORTEST = 0x34
# Offsets and layouts of the ELF specification, by file class: 1 is 32 bits, 2 is 64 bits.
_HEADER = {1: (0x20, "I", 0x2E, 40), 2: (0x28, "Q", 0x3A, 64)}
_SECTION = {1: "IIIIIIIIII", 2: "IIQQQQIIQQ"}
# Layout of a symbol, and the positions of name, value and section in it.
_SYMBOL = {1: ("IIIBBH", (0, 1, 5)), 2: ("IBBHQQ", (0, 4, 3))}


def exported_number(data: bytes, name: str) -> int | None:
    """Return the unsigned 32-bit number that a shared object exports as `name`, or None if it has no such symbol.

    Raises:
        ValueError: the data is not a shared object, or is damaged.
    """
    if data[:4] != _MAGIC or len(data) < _SHORTEST or data[4] not in _HEADER or data[5] not in {1, 2}:
        message = "this is not a shared object (not an ELF file)"
        raise ValueError(message)
    try:
        return _look_up(data, name)
    except (struct.error, IndexError) as exc:
        message = f"the shared object is damaged: {exc}"
        raise ValueError(message) from exc


def _look_up(data: bytes, name: str) -> int | None:
    """Return the value of the dynamic symbol `name`, or None."""
    kind, order = data[4], "<>"[data[5] - 1]
    sections = _sections(data, kind, order)
    layout, (name_at, value_at, section_at) = _SYMBOL[kind]
    layout = order + layout
    for section in sections:
        if section["type"] != _DYNSYM:
            continue
        names = sections[section["link"]]["offset"]
        end = section["offset"] + section["size"]
        for offset in range(section["offset"], end, struct.calcsize(layout)):
            fields = struct.unpack_from(layout, data, offset)
            start = names + fields[name_at]
            if data[start : data.index(b"\0", start)].decode(errors="replace") == name and fields[section_at]:
                home = sections[fields[section_at]]
                place = home["offset"] + fields[value_at] - home["address"]
                return int(struct.unpack_from(f"{order}I", data, place)[0])
    return None


def _sections(data: bytes, kind: int, order: str) -> list[dict[str, int]]:
    """Return type, address, offset, size and link of every section."""
    place, word, sizes, _ = _HEADER[kind]
    start = struct.unpack_from(order + word, data, place)[0]
    each, count = struct.unpack_from(f"{order}HH", data, sizes)
    found = [struct.unpack_from(order + _SECTION[kind], data, start + number * each) for number in range(count)]
    return [
        {"type": item[1], "address": item[3], "offset": item[4], "size": item[5], "link": item[6]} for item in found
    ]


def release_text(number: int) -> str:
    """Return Slurm's version number as text: 0x180b05 gives '24.11.5'."""
    return f"{number >> 16 & 0xFF}.{number >> 8 & 0xFF:02d}.{number & 0xFF}"


def slurm_of_plugin(data: bytes) -> str:
    """Return the Slurm version that a plugin was built for, such as '24.11.5'.

    Raises:
        ValueError: the data is not a shared object or not a Slurm plugin.
    """
    number = exported_number(data, "plugin_version")
    if number is None:
        message = "this is not a Slurm plugin: it does not export plugin_version"
        raise ValueError(message)
    return release_text(number)


def header_release(text: str) -> str:
    """Return the Slurm version in the text of slurm_version.h; '' if it contains none."""
    found = _NUMBER.search(text)
    return release_text(int(found[1], 16)) if found else ""
