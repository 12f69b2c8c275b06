"""Choose NCCL_IB_GID_INDEX in /etc/nccl.conf for RoCE.

NCCL 2.21 and newer find a RoCE v2 GID automatically (NCCL user guide, NCCL_IB_GID_INDEX: -1); older releases use index
0, which is RoCE v1. The index applies to all ports of a node, including InfiniBand, so it is set only if all ports have
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["nccl_gid_index"]

AUTO = "auto"


def nccl_gid_index(wanted: str, ports: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the index to write and an explanation.

    Args:
        wanted: `auto`, an index, or empty for no index.
        ports: result of `rdma_ports`.

    Returns:
        `index`, empty if none should be written, and `note`, the reason.

    Raises:
        ValueError: `wanted` is invalid.
    """
    if not wanted or wanted.isdigit():
        return {"index": wanted, "note": ""}
    if wanted != AUTO:
        message = f"{wanted!r} is not a GID index; write auto, a number such as 3, or leave it empty"
        raise ValueError(message)
    active = [port for port in ports if port["active"]]
    fastest = max((port["rate_gbps"] or 0 for port in active), default=0)
    fabric = [port for port in active if (port["rate_gbps"] or 0) == fastest]
    if not fabric:
        return {"index": "", "note": "no RDMA port is active: NCCL_IB_GID_INDEX is not written"}
    if any(port["link_layer"] != "Ethernet" for port in fabric):
        return {"index": "", "note": ""}
    common = set(fabric[0]["roce_gids"]).intersection(*(port["roce_gids"] for port in fabric))
    if common:
        return {"index": str(min(common)), "note": ""}
    seen = ", ".join(f"{port['device']}: {port['roce_gids'] or 'none'}" for port in fabric)
    return {
        "index": "",
        "note": f"no index is a GID of RoCE v2 on all ports ({seen}): NCCL_IB_GID_INDEX is not written",
    }
