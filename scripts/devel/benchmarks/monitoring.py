"""Monitors a sandbox, and then as many nodes as asked for with its Prometheus: what a scrape costs, what they all need.

The exporter of a real node of the sandbox says what a node has. A second Prometheus, of the same package and with the
rules that busbar wrote, then scrapes that answer from as many loopback addresses, beside metrics of GPUs that are made:
all counters of the role dcgm_exporter, for the number of GPUs. It runs some intervals, not the hours after which the
first block is written, so that memory for samples is small in it and memory for series is what is measured.
"""

from __future__ import annotations

import gzip
import json
import re
import time
import urllib.request
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from ansible_collections.busbar.cluster.plugins.module_utils.monitoring.dcgm_counters import (
    DEVICE_COUNTERS,
    PROFILING_COUNTERS,
)
from busbar.option_values import whole
from busbar.paths import collection
from busbar.sandbox import state

from devel import sandboxes
from devel.measured import Figure, Needs

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

__all__ = ["CHART", "GOALS", "add_options", "addresses", "configuration", "gpu_metrics", "measure", "needs", "value"]

GOALS = ()
CHART = None
_PORT, _OWN_PORT = 19100, 19090
_FOLDER = "/var/tmp/busbar-benchmark"  # noqa: S108 - of the sandbox's controller
_SCRAPES = 50
_INTERVALS = 10
# Per node with eight GPUs, measured with the figures of this benchmark, and a half more.
_NODE_MIB, _NODE_DISK_MIB = 6, 1
_SERIES = re.compile(r"^[^#\s]", re.MULTILINE)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what can be chosen."""
    parser.add_argument("--nodes", default="1000", metavar="N", help="nodes that Prometheus scrapes; default 1000")
    parser.add_argument("--gpus", default="8", metavar="N", help="GPUs of each; default 8")
    sandboxes.add_name(parser)


def needs(args: argparse.Namespace) -> Needs:
    """Return what a sandbox of two nodes and that Prometheus need.

    Raises:
        UsageError: a number of nodes or GPUs is not valid.
    """
    nodes, _ = _sizes(args)
    sandbox = sandboxes.needs(2, "--nodes")
    return sandbox._replace(
        memory_mib=sandbox.memory_mib + nodes * _NODE_MIB, disk_mib=sandbox.disk_mib + nodes * _NODE_DISK_MIB
    )


def measure(args: argparse.Namespace) -> Iterator[Figure]:
    """The cost of a scrape, and what Prometheus needs.

    Raises:
        UsageError: no such number of nodes or GPUs, or a sandbox that is there already.
        ValueError: a command failed, or Prometheus did not come to scrape them all.
    """
    nodes, gpus = _sizes(args)
    with sandboxes.sandbox(args.name) as inventory:
        sandboxes.busbar("sandbox", "up", "--name", args.name, "--compute", "2")
        sandboxes.busbar("provision", "-i", str(inventory), "--skip-tags", "validation")
        cluster = state.load(args.name)
        exporter = _exporter(cluster)
        before = value(exporter.text, "process_cpu_seconds_total")
        began = time.monotonic()
        for _ in range(_SCRAPES):
            exporter = _exporter(cluster)
        took = time.monotonic() - began
        spent = value(exporter.text, "process_cpu_seconds_total") - before
        yield Figure("node_series", len(_SERIES.findall(exporter.text)), "series of a node, without GPUs")
        yield Figure("node_answer", round(exporter.bytes / 1000, 1), "kB, packed")
        yield Figure("node_scrape_cpu", round(1000 * spent / _SCRAPES, 1), "ms of the node's CPU")
        yield Figure("node_scrape", round(1000 * took / _SCRAPES, 1), "ms, wall")
        yield Figure("gpu_series", len(_SERIES.findall(gpu_metrics(gpus))), f"series of {gpus} GPUs")
        yield from _many(cluster, exporter.text, nodes, gpus)


def _sizes(args: argparse.Namespace) -> tuple[int, int]:
    return whole("--nodes", str(args.nodes), 1, 60000), whole("--gpus", str(args.gpus), 0, 16)


def gpu_metrics(gpus: int) -> str:
    """An answer of dcgm-exporter with every counter that the role writes, for so many GPUs."""
    names = [counter for counter in (*DEVICE_COUNTERS, *PROFILING_COUNTERS) if counter.kind != "label"]
    labels = [
        f'gpu="{gpu}",UUID="GPU-{gpu:036d}",device="nvidia{gpu}",modelName="NVIDIA H100 80GB HBM3",Hostname="gpu"'
        for gpu in range(gpus)
    ]
    return "".join(f"{counter.name}{{{label}}} {number}\n" for counter in names for number, label in enumerate(labels))


def addresses(nodes: int) -> list[str]:
    """One loopback address for each node."""
    return [f"127.{1 + number // 62500}.{number // 250 % 250}.{1 + number % 250}:{_PORT}" for number in range(nodes)]


def configuration(nodes: int, gpus: int, interval: str) -> str:
    """The configuration of Prometheus: the rules of the site, and the nodes as two jobs."""
    targets = [
        {"targets": [address], "labels": {"instance": f"gpu{number}", "node": f"gpu{number}"}}
        for number, address in enumerate(addresses(nodes), 1)
    ]
    jobs = [{"job_name": "node", "honor_labels": True, "static_configs": targets}]
    jobs += [{"job_name": "dcgm", "metrics_path": "/dcgm", "static_configs": targets}] if gpus else []
    timing = {"scrape_interval": interval, "evaluation_interval": interval, "external_labels": {"cluster": "benchmark"}}
    rules = ["/etc/prometheus/rules/busbar_*.yml"]
    return yaml.safe_dump({"global": timing, "rule_files": rules, "scrape_configs": jobs})


def value(text: str, name: str) -> float:
    """The value of a metric without labels.

    Raises:
        ValueError: it is not there.
    """
    match = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
    if not match:
        message = f"an exporter did not say {name}"
        raise ValueError(message)
    return float(match[1])


def _many(cluster: state.Sandbox, text: str, nodes: int, gpus: int) -> Iterator[Figure]:
    role = yaml.safe_load((collection() / "roles/prometheus/defaults/main.yml").read_text(encoding="utf-8"))
    interval = role["prometheus_scrape_interval"]
    files = {
        "node.prom": text,
        "dcgm.prom": gpu_metrics(gpus),
        "nodes.py": Path(__file__).with_name("monitored_nodes.py").read_text(encoding="utf-8"),
        "prometheus.yml": configuration(nodes, gpus, interval),
    }
    sandboxes.printed(cluster, "ctl", f"mkdir -p {_FOLDER}")
    for name, content in files.items():
        sandboxes.written(cluster, "ctl", f"{_FOLDER}/{name}", content)
    run = "systemd-run -q --collect -p LimitNOFILE=262144 --unit"
    sandboxes.printed(cluster, "ctl", f"{run} benchmark-nodes python3 {_FOLDER}/nodes.py {_PORT} {_FOLDER}")
    options = f"--config.file={_FOLDER}/prometheus.yml --storage.tsdb.path={_FOLDER}/data"
    options += f" --web.listen-address=0.0.0.0:{_OWN_PORT}"
    sandboxes.printed(cluster, "ctl", f"{run} benchmark-prometheus prometheus {options}")
    own = f"http://{cluster.address('ctl')}:{_OWN_PORT}"
    seconds = int(interval.removesuffix("s"))
    began, start = _after(own, nodes, 2, seconds)
    ended, end = _after(own, nodes, 2 + _INTERVALS, seconds)
    rounds = (ended - began) / seconds
    spent = value(end, "process_cpu_seconds_total") - value(start, "process_cpu_seconds_total")
    memory = value(end, "process_resident_memory_bytes")
    series = value(end, "prometheus_tsdb_head_series")
    yield Figure("series", int(series), "series")
    yield Figure("memory", round(memory / (1 << 20)), "MiB of Prometheus")
    yield Figure("memory_per_series", round(memory / series / 1024, 2), "KiB")
    yield Figure("cpu", round(spent / rounds, 2), f"s of CPU, each {interval}")
    yield Figure("rules", round(_longest_rules(end), 2), "s, the slowest group")
    yield Figure("rules_missed", _missed(end), "evaluations")


def _after(own: str, nodes: int, scrapes: int, seconds: int) -> tuple[float, str]:
    """When each node had been scraped so often, and what Prometheus then says of itself.

    Raises:
        ValueError: that did not come about in four times the time.
    """
    query = f"{own}/api/v1/query?query=count(count_over_time(up%7Bjob%3D%22node%22%7D%5B1h%5D)%3E%3D{scrapes})"
    until = time.monotonic() + 4 * seconds * (scrapes + 2) + 120
    found = 0
    while time.monotonic() < until:
        try:
            answer = json.loads(_read(query).text)["data"]["result"]
        except OSError:
            answer = []
        found = int(answer[0]["value"][1]) if answer else 0
        if found == nodes:
            return time.monotonic(), _read(f"{own}/metrics").text
        time.sleep(1)
    message = f"Prometheus had scraped {found} of {nodes} nodes {scrapes} times when the time was over"
    raise ValueError(message)


def _longest_rules(text: str) -> float:
    found = re.findall(r"^prometheus_rule_group_last_duration_seconds\{.*\} (\S+)$", text, re.MULTILINE)
    return max((float(seconds) for seconds in found), default=0.0)


def _missed(text: str) -> float:
    return sum(
        float(number)
        for number in re.findall(r"^prometheus_rule_group_iterations_missed_total\{.*\} (\S+)$", text, re.MULTILINE)
    )


class _Answer:
    """What a page said, and its bytes on the wire."""

    def __init__(self, text: str, size: int) -> None:
        self.text, self.bytes = text, size


def _exporter(cluster: state.Sandbox) -> _Answer:
    password = (cluster.path / "secrets/monitoring.password").read_text(encoding="utf-8").strip()
    login = b64encode(f"prometheus:{password}".encode()).decode()
    return _read(f"http://{cluster.address('gpu1')}:9100/metrics", {"Authorization": f"Basic {login}"})


def _read(url: str, headers: dict[str, str] | None = None) -> _Answer:
    """A page, packed on its way.

    Raises:
        OSError: it did not come.
    """
    request = urllib.request.Request(url, headers={"Accept-Encoding": "gzip", **(headers or {})})  # noqa: S310
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - an address of the sandbox
        body = answer.read()
        packed = answer.headers.get("Content-Encoding") == "gzip"
    return _Answer((gzip.decompress(body) if packed else body).decode(), len(body))
