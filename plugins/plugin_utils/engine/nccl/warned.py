# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Collect NCCL's warnings in bounded memory.

Format: ncclDebugLog in src/debug.cc of github.com/NVIDIA/nccl. Newer versions print the time before the host name and
the function after the file.
"""

from __future__ import annotations

import re

__all__ = ["Warned", "cause", "hint"]

_WARN = "NCCL WARN "
_HOST = re.compile(r"(?<![\w.-])([\w.-]+):\d+:\d+ \[\d+\] ")
_FIGURE = re.compile(r"0x[0-9a-fA-F]+|\d{3,}")
_MOST = 20
_LONGEST = 300
# Warnings that result from another one, of this process or of its peer.
_FOLLOWS = re.compile(
    r"closed by remote peer|\[(?:proxy )?service|\[proxy|socket recv failed|encountered a fatal error|accept failed"
    r"|status=(?:[\w ]*\()?5\b|error 5\b|cuda failure \d* ?'?(?:unspecified launch|driver shutting)",
    re.IGNORECASE,
)
_HINTS = (
    (
        r"ibv_modify_qp failed with (?:error )?(?:110\b|Connection timed out)",
        "these NICs do not reach each other: check cables and routes; set NCCL_CROSS_NIC=0 if rails are not joined",
    ),
    (
        r"ibv_modify_qp failed with (?:error )?(?:22\b|Invalid argument)",
        "the GID does not exist or is of another network: leave NCCL_IB_GID_INDEX unset, or see show_gids",
    ),
    (r"async.* event.*port error", "the link of this NIC went down: check cable, transceiver and switch port"),
    (
        r"completion .*(?:status=(?:[\w ]*\()?12\b|error 12\b)",
        "the peer did not answer: check the links and routes between these NICs, and the peer's node",
    ),
    (r"ibv_reg_mr\S* failed", "memory cannot be locked or registered: ulimit -l in a job, nvidia_peermem"),
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
        host = _HOST.search(before)
        text = f"{host[1]}: {words.strip()}" if host is not None else words.strip()
        # Addresses and numbers of queue pairs differ each time.
        kind = _FIGURE.sub("#", text)
        if words.strip() and kind not in self._seen and len(self.texts) < _MOST:
            self._seen.add(kind)
            self.texts.append(text[:_LONGEST])


def hint(warning: str) -> str:
    """Return advice for a warning; empty if it is unknown."""
    return next((words for pattern, words in _HINTS if re.search(pattern, warning)), "")


def cause(warnings: list[str]) -> str:
    """Return the warning that explains the end of a run, with advice; empty if there is no such warning."""
    first = next((each for each in warnings if not _FOLLOWS.search(each)), warnings[0] if warnings else "")
    return f"{first} ({hint(first)})" if hint(first) else first
