"""Ethernet and InfiniBand: rates, errors, and whether each link runs at the speed that its profile declares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .board import board, node_variable
from .panels import Column, board_link, graph, query, stats, tabled
from .promql import ETHERNET, of_node, rate

if TYPE_CHECKING:
    from grafana_foundation_sdk.models.dashboard import Dashboard

    from .panels import Placed

__all__ = ["make"]

BY_PORT = "sum by (node, device, port)"
BELOW = ((0, "red"), (0.99, "green"))
FINE_OR_BAD = ((0, "green"), (1, "red"))
# IBTA's link states, as node exporter gives them.
LINK = {1: ("down", "red"), 2: ("initialising", "orange"), 3: ("armed", "yellow"), 4: ("active", "green")}


def make() -> Dashboard:
    """Return the dashboard."""
    rows = [("InfiniBand", _infiniband()), ("InfiniBand: errors", _faults()), ("Ethernet", _ethernet())]
    description = "Rates, errors and link speed against the hardware profile, for InfiniBand and Ethernet."
    return board("network", "Network and InfiniBand", description, rows, [node_variable()])


def _ratio(found: str, kind: str, matchers: tuple[str, ...] = ()) -> str:
    """Return by node the slowest link's speed over what the profile declares; only where it declares one."""
    expected = of_node("busbar_node_expected_link_bytes_per_second", f'kind="{kind}"')
    return f"min by (node) ({of_node(found, *matchers)}) / on (node) max by (node) ({expected})"


def _infiniband() -> list[Placed]:
    state, speed = of_node("node_infiniband_state_id"), of_node("node_infiniband_rate_bytes_per_second")
    return [
        stats(
            "Ports that are up",
            "InfiniBand ports whose link is active, and all ports of the chosen nodes.",
            "none",
            query(f"count({state} == 4) or 0 * count({state})", "active"),
            query(f"count({state})", "all"),
            height=8,
        ),
        stats(
            "Slowest link against its profile",
            "Speed of the slowest link over what the node's hardware profile declares: 100 %, or something is wrong.",
            "percentunit",
            query(f"min({_ratio('node_infiniband_rate_bytes_per_second', 'infiniband')})"),
            steps=BELOW,
            decimals=0,
            height=8,
        ),
        tabled(
            "Ports",
            "Every InfiniBand port with its state and its speed.",
            [f"max by (node, device, port) ({state})", f"max by (node, device, port) ({speed})"],
            {
                "node": Column("Node", link=board_link("node", node="${__value.raw}")),
                "device": Column("Device"),
                "port": Column("Port", width=70),
                "Value #A": Column("State", words=LINK),
                "Value #B": Column("Speed", unit="Bps"),
            },
            sort="node",
            descending=False,
            width=16,
        ),
        graph(
            "Received",
            "What each InfiniBand port receives.",
            "Bps",
            query(
                f"{BY_PORT} ({rate(of_node('node_infiniband_port_data_received_bytes_total'))})", "{{node}} {{device}}"
            ),
        ),
        graph(
            "Sent",
            "What each InfiniBand port sends.",
            "Bps",
            query(
                f"{BY_PORT} ({rate(of_node('node_infiniband_port_data_transmitted_bytes_total'))})",
                "{{node}} {{device}}",
            ),
        ),
        graph(
            "Link speed against the profile",
            "Slowest InfiniBand link of each node over the speed that its profile declares. Below 100 % a link came up"
            " with fewer lanes or slower.",
            "percentunit",
            query(_ratio("node_infiniband_rate_bytes_per_second", "infiniband"), "{{node}}"),
        ),
        graph(
            "Congestion",
            "Ticks in which a port had something to send and no credit to: the other side does not keep up.",
            "cps",
            query(f"{BY_PORT} ({rate(of_node('node_infiniband_port_transmit_wait_total'))})", "{{node}} {{device}}"),
        ),
    ]


def _faults() -> list[Placed]:
    drawn = [
        ("Symbol errors", "Bits that were read wrong: a dirty or bad cable.", "node_infiniband_symbol_error_total"),
        ("Packets in error", "Packets that arrived broken.", "node_infiniband_port_errors_received_total"),
        ("Packets discarded", "Packets dropped on the way out.", "node_infiniband_port_discards_transmitted_total"),
        ("Links lost", "How often the link went down.", "node_infiniband_link_downed_total"),
        ("Links recovered", "How often the link had to retrain.", "node_infiniband_link_error_recovery_total"),
        (
            "Link integrity",
            "How often a port saw too many local errors.",
            "node_infiniband_local_link_integrity_errors_total",
        ),
    ]
    return [
        graph(
            title,
            words,
            "cps",
            query(f"{BY_PORT} ({rate(of_node(metric))})", "{{node}} {{device}}"),
            width=8,
        )
        for title, words, metric in drawn
    ]


def _ethernet() -> list[Placed]:
    name = "{{node}} {{device}}"
    up = of_node("node_network_up", ETHERNET)

    def moved(metric: str) -> str:
        return f"sum by (node, device) ({rate(of_node(metric, ETHERNET))})"

    def faults(kind: str) -> str:
        both = (of_node(f"node_network_{way}_{kind}_total", ETHERNET) for way in ("receive", "transmit"))
        return " + ".join(f"sum by (node, device) ({rate(selector)})" for selector in both)

    return [
        stats(
            "Interfaces that are up",
            "Ethernet interfaces that are up, and all of the chosen nodes.",
            "none",
            query(f"count({up} == 1) or 0 * count({up})", "up"),
            query(f"count({up})", "all"),
            height=8,
        ),
        stats(
            "Broken packets per second",
            "Errors and drops on all Ethernet interfaces of the chosen nodes.",
            "pps",
            query(
                f"sum({rate(of_node('node_network_receive_errs_total', ETHERNET))})"
                f" + sum({rate(of_node('node_network_transmit_errs_total', ETHERNET))})",
                "errors",
            ),
            query(f"sum({rate(of_node('node_network_receive_drop_total', ETHERNET))})", "drops"),
            steps=FINE_OR_BAD,
            height=8,
        ),
        tabled(
            "Interfaces",
            "Every Ethernet interface with its speed.",
            [
                f"max by (node, device) ({up})",
                f"max by (node, device) ({of_node('node_network_speed_bytes', ETHERNET)} > 0)",
                f"max by (node, device) ({of_node('node_network_mtu_bytes', ETHERNET)})",
            ],
            {
                "node": Column("Node", link=board_link("node", node="${__value.raw}")),
                "device": Column("Interface"),
                "Value #A": Column("State", words={1: ("up", "green"), 0: ("down", "red")}),
                "Value #B": Column("Speed", unit="Bps"),
                "Value #C": Column("MTU", unit="decbytes"),
            },
            sort="node",
            descending=False,
            width=16,
        ),
        graph(
            "Received",
            "What each interface receives.",
            "Bps",
            query(moved("node_network_receive_bytes_total"), name),
        ),
        graph("Sent", "What each interface sends.", "Bps", query(moved("node_network_transmit_bytes_total"), name)),
        graph(
            "Link speed against the profile",
            "Slowest Ethernet link of each node over the speed that its hardware profile declares.",
            "percentunit",
            query(_ratio("node_network_speed_bytes", "ethernet", (ETHERNET,)) + " > 0", "{{node}}"),
            width=8,
        ),
        graph("Errors", "Packets that were broken, both ways.", "pps", query(faults("errs"), name), width=8),
        graph("Drops", "Packets that were dropped, both ways.", "pps", query(faults("drop"), name), width=8),
        graph(
            "TCP segments sent again",
            "Segments that had to be repeated, by node: loss somewhere on the way.",
            "pps",
            query(f"sum by (node) ({rate(of_node('node_netstat_Tcp_RetransSegs'))})", "{{node}}"),
        ),
        graph(
            "Carrier lost or found",
            "How often a link went down or came up in the hour before.",
            "none",
            query(
                f"sum by (node, device) (increase({of_node('node_network_carrier_changes_total', ETHERNET)}[1h]))", name
            ),
        ),
    ]
