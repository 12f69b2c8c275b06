# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Format an address and port for daemons and Prometheus."""

from __future__ import annotations

__all__ = ["socket_address"]


def socket_address(address: str, port: int | str) -> str:
    """Return ADDRESS:PORT, with an IPv6 address in brackets."""
    return f"[{address}]:{port}" if ":" in address and not address.startswith("[") else f"{address}:{port}"
