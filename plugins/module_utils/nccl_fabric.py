# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""What NCCL's own INFO lines say about the way that the data took."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["FabricNotes"]

_NETWORK = re.compile(r"NCCL INFO Using network (\S.*?)\s*$")
_NIC = re.compile(r"\[\d+\]([\w.-]+):\d+/(IB|RoCE|\w+)")
_VIA = re.compile(r"\bvia (NET/[\w .-]+?)/\d+(?:\(\d+\))?(/GDRDMA)?(?:/|\s|\(|$)")
_NVLS_CHANNELS = re.compile(r"(\d+) nvls channels")
_NVLS_SUPPORT = re.compile(r"NVLS multicast support is (not )?available")
_NVLS_USED = re.compile(r"Connected NVLS tree|NVLS Head|NVLS comm 0x")
_GDR = re.compile(r"GPU Direct RDMA (Enabled|Disabled)")


class FabricNotes:
    """Gathers, in constant memory, the networks, NICs, GPUDirect RDMA and NVLS that a run used."""

    def __init__(self) -> None:
        """Start with nothing known."""
        self.networks: list[str] = []
        self.nics: list[str] = []
        self.gdrdma: bool | None = None
        self.nvls: bool | None = None
        self._ways: set[str] = set()

    def feed(self, line: str) -> None:
        """Take one line of the library."""
        if "Using network" in line:
            match = _NETWORK.search(line)
            if match is not None and match[1] not in self.networks and len(self.networks) < 8:  # noqa: PLR2004 - a bound
                self.networks.append(match[1])
        if "NET/" in line:
            self._net(line)
        if "NVLS" in line or "nvls" in line:
            self._nvls(line)

    def _net(self, line: str) -> None:
        if "NET/IB : Using" in line:
            for name, _kind in _NIC.findall(line):
                if name not in self.nics and len(self.nics) < 64:  # noqa: PLR2004 - a bound
                    self.nics.append(name)
        at = line.find("via NET/")
        if at >= 0:
            self._via(line[max(0, at - 1) :])
        if "GPU Direct RDMA" in line:
            match = _GDR.search(line)
            if match is not None and match[1] == "Disabled":
                self.gdrdma = False

    def _via(self, way: str) -> None:
        # A connection per line, but few ways: what was seen once says nothing new.
        if way in self._ways:
            return
        if len(self._ways) < 1024:  # noqa: PLR2004 - a bound
            self._ways.add(way)
        match = _VIA.search(way)
        if match is not None:
            direct = match[2] is not None
            self.gdrdma = direct if self.gdrdma is None else self.gdrdma and direct

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
        """Return what is known; None and empty lists stand for what no line told."""
        return {"networks": self.networks, "nics": self.nics, "gdrdma": self.gdrdma, "nvls": self.nvls}
