# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Address and port as daemons and Prometheus write them."""

from __future__ import annotations

__all__ = ["socket_address"]


def socket_address(address: str, port: int | str) -> str:
    """Return address and port, an address of IPv6 in brackets."""
    return f"[{address}]:{port}" if ":" in address and not address.startswith("[") else f"{address}:{port}"
