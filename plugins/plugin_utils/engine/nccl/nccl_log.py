# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Parse NCCL's log lines: the network and NICs of a run from INFO lines, and its warnings.

Format: ncclDebugLog in src/debug.cc of github.com/NVIDIA/nccl. Newer versions print the time before the host name, and
the function after the file.
"""

from __future__ import annotations

import re
from typing import Any

_NETWORK = re.compile(r"NCCL INFO Using network (\S.*?)\s*$")
_HOST = re.compile(r"(?<![\w.-])([\w.-]+):\d+:\d+ \[\d+\] NCCL INFO")
_NIC = re.compile(r"\[\d+\]([\w.-]+):\d+/(IB|RoCE|\w+)")
_VIA = re.compile(r"\bvia (NET/[\w .-]+?)/(\d+)(?:\(\d+\))?(/GDRDMA)?(?:/|\s|\(|$)")
_NVLS_CHANNELS = re.compile(r"(\d+) nvls channels")
_NVLS_SUPPORT = re.compile(r"NVLS multicast support is (not )?available")
_NVLS_USED = re.compile(r"Connected NVLS tree|NVLS Head|NVLS comm 0x")
_GDR = re.compile(r"GPU Direct RDMA (Enabled|Disabled)")


_MOST_WAYS = 16384
_MOST_HOSTS = 4096
_MOST_NICS = 64


class FabricNotes:
    """Collects, in bounded memory, the networks, NICs, GPUDirect RDMA, NVLS and in-network reduction of a run."""

    def __init__(self) -> None:
        """Create an empty collection."""
        self.networks: list[str] = []
        self.nics: list[str] = []
        self.gdrdma: bool | None = None
        self.nvls: bool | None = None
        self.in_network: bool | None = None
        self.ways: set[str] = set()
        self._listed: dict[str, list[str]] = {}
        self._carrying: dict[str, set[int]] = {}
        self._carried = 0

    @property
    def known(self) -> tuple[object, ...]:
        """The collected facts in comparable form, to detect whether a line added one."""
        lists = (self.networks, self.nics, self.ways, self._listed, self._carrying)
        return (*map(len, lists), self._carried, self.gdrdma, self.nvls, self.in_network)

    def feed(self, line: str) -> None:
        """Process one library line."""
        if "Using network" in line:
            match = _NETWORK.search(line)
            if match is not None and match[1] not in self.networks and len(self.networks) < 8:  # noqa: PLR2004
                self.networks.append(match[1])
        if "NET/" in line:
            self._net(line)
            # Printed by src/transport/coll_net.cc for a connection to a switch that performs reductions (SHARP).
            self.in_network = self.in_network or (" via COLLNET/" in line or None)
        if "NVLS" in line or "nvls" in line:
            self._nvls(line)

    def _net(self, line: str) -> None:
        if "NET/IB : Using" in line:
            names = [name for name, _kind in _NIC.findall(line)][:_MOST_NICS]
            self.nics += [name for name in names if name not in self.nics][: _MOST_NICS - len(self.nics)]
            host = _HOST.search(line)
            if host is not None and len(self._listed) < _MOST_HOSTS:
                self._listed.setdefault(host[1], names)
        at = line.find("via NET/")
        if at >= 0:
            self._via(line, line[max(0, at - 1) :])
        if "GPU Direct RDMA" in line:
            match = _GDR.search(line)
            if match is not None and match[1] == "Disabled":
                self.gdrdma = False

    def _via(self, line: str, way: str) -> None:
        # NCCL prints one line per connection, but a host has few paths; repeated lines are skipped.
        host = _HOST.search(line)
        seen = (host[1] if host else "") + way
        if seen in self.ways:
            return
        if len(self.ways) < _MOST_WAYS:
            self.ways.add(seen)
        match = _VIA.search(way)
        if match is None:
            return
        direct = match[3] is not None
        self.gdrdma = direct if self.gdrdma is None else self.gdrdma and direct
        if host is not None and match[1] == "NET/IB" and len(self._carrying) < _MOST_HOSTS:
            places = self._carrying.setdefault(host[1], set())
            before = len(places)
            places.add(int(match[2]) if len(match[2]) < 4 else 0)  # noqa: PLR2004
            self._carried += len(places) - before

    def _nvls(self, line: str) -> None:
        match = _NVLS_CHANNELS.search(line)
        if match is not None:
            self.nvls = bool(self.nvls) or int(match[1]) > 0
        match = _NVLS_SUPPORT.search(line)
        if match is not None and match[1]:
            self.nvls = bool(self.nvls)
        if _NVLS_USED.search(line):
            self.nvls = True

    def result(self) -> dict[str, Any]:
        """Return the collected facts; unknown ones are None or empty lists.

        ``rails`` maps each host to its NICs that NCCL ``listed`` and those that ``carried`` data.
        """
        rails = {
            host: {
                "listed": names,
                "carried": [name for place, name in enumerate(names) if place in self._carrying.get(host, ())],
            }
            for host, names in self._listed.items()
        }
        return {
            "networks": self.networks,
            "nics": self.nics,
            "gdrdma": self.gdrdma,
            "nvls": self.nvls,
            "in_network": self.in_network,
            "rails": rails,
        }


_WARN = "NCCL WARN "
_WARNING_HOST = re.compile(r"(?<![\w.-])([\w.-]+):\d+:\d+ \[\d+\] ")
_FIGURE = re.compile(r"0x[0-9a-fA-F]+|\d{3,}")
_MOST = 20
_LONGEST = 300
# Warnings caused by an earlier failure of this process or its peer.
_FOLLOWS = re.compile(
    r"closed by remote peer|\[(?:proxy )?service|\[proxy|socket recv failed|encountered a fatal error|accept failed"
    r"|status=(?:[\w ]*\()?5\b|error 5\b|cuda failure \d* ?'?(?:unspecified launch|driver shutting)",
    re.IGNORECASE,
)
_HINTS = (
    (
        r"ibv_modify_qp failed with (?:error )?(?:110\b|Connection timed out)",
        "these NICs cannot reach each other: check cables and routes; set NCCL_CROSS_NIC=0 if rails are not joined",
    ),
    (
        r"ibv_modify_qp failed with (?:error )?(?:22\b|Invalid argument)",
        "the GID does not exist or belongs to another network: unset NCCL_IB_GID_INDEX, or choose one from show_gids",
    ),
    (r"async.* event.*port error", "the link of this NIC went down: check the cable, transceiver and switch port"),
    (
        r"completion .*(?:status=(?:[\w ]*\()?12\b|error 12\b)",
        "the peer did not answer: check the links and routes between these NICs, and the peer's node",
    ),
    (
        r"ibv_reg_mr\S* failed",
        "memory cannot be locked or registered: raise ulimit -l for jobs, and load nvidia_peermem",
    ),
)


class Warned:
    """The distinct warnings of a run."""

    def __init__(self) -> None:
        """Start without warnings."""
        self.texts: list[str] = []
        self._seen: set[str] = set()

    def feed(self, line: str) -> None:
        """Process a line with a warning."""
        before, _, words = line.partition(_WARN)
        host = _WARNING_HOST.search(before)
        text = f"{host[1]}: {words.strip()}" if host is not None else words.strip()
        # Addresses and queue pair numbers differ in each line.
        kind = _FIGURE.sub("#", text)
        if words.strip() and kind not in self._seen and len(self.texts) < _MOST:
            self._seen.add(kind)
            self.texts.append(text[:_LONGEST])


def hint(warning: str) -> str:
    """Return the remedy for a warning; empty if it is unknown."""
    return next((words for pattern, words in _HINTS if re.search(pattern, warning)), "")


def cause(warnings: list[str]) -> str:
    """Return the warning that best explains why a run ended, with its remedy; empty without warnings."""
    first = next((each for each in warnings if not _FOLLOWS.search(each)), warnings[0] if warnings else "")
    return f"{first} ({hint(first)})" if hint(first) else first
