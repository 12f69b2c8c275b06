"""Selectors of PromQL with the dashboards' variables in them, so that no query forgets one."""

from __future__ import annotations

__all__ = [
    "ETHERNET",
    "FILESYSTEMS",
    "OUT_OF_SERVICE",
    "RATE",
    "READY",
    "VERDICTS",
    "equal",
    "of_cluster",
    "of_node",
    "rate",
]

# Without an external label (Prometheus itself has none on its own series) `.*` matches as well: one cluster, one store,
# or many clusters behind one remote store, the same dashboards serve.
CLUSTER = 'cluster=~"$cluster"'
NODE = 'node=~"$node"'
RATE = "[$__rate_interval]"
READY = 'state=~"idle|mixed|allocated|reserved|planned"'
OUT_OF_SERVICE = 'state=~"down|drained|draining|maint|other"'
# What is no wire: loopback, and what containers and bridges make.
ETHERNET = 'device!~"lo|veth.*|docker.*|podman.*|br-.*|virbr.*|cali.*|flannel.*|ib.*"'
FILESYSTEMS = (
    'fstype!~"tmpfs|ramfs|devtmpfs|squashfs|overlay|nsfs|autofs|fuse.*|iso9660",mountpoint!~"/(boot|run|dev).*"'
)
VERDICTS = {0: ("PASS", "green"), 1: ("FAIL", "red"), 3: ("INCONCLUSIVE", "orange")}


def of_cluster(metric: str, *matchers: str) -> str:
    """Return the series of the chosen clusters: 'up' gives 'up{cluster=~"$cluster"}'."""
    return f"{metric}{{{','.join((CLUSTER, *matchers))}}}"


def of_node(metric: str, *matchers: str) -> str:
    """Return the series of the chosen nodes of the chosen clusters."""
    return of_cluster(metric, NODE, *matchers)


def equal(label: str, value: str) -> str:
    """Return a matcher: 'job' and 'node' give 'job="node"'."""
    return f'{label}="{value}"'


def rate(selector: str) -> str:
    """Return a counter's growth per second over what a point of the graph covers."""
    return f"rate({selector}{RATE})"
