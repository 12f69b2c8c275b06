"""The benchmark of the monitoring: what stands for many nodes answers as their exporters would."""

from __future__ import annotations

import contextlib
import gzip
import re
import socket
import subprocess
import sys
import time
import urllib.request
from typing import TYPE_CHECKING

import pytest
import yaml
from devel import benchmark
from devel.benchmarks import monitored_nodes, monitoring

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NODE = """# HELP node_load1 1m load average.
# TYPE node_load1 gauge
node_load1 0.5
node_cpu_seconds_total{cpu="0",mode="idle"} 100
process_cpu_seconds_total 2.5
"""


@contextlib.contextmanager
def served(folder: Path) -> Iterator[int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    running = subprocess.Popen([sys.executable, monitored_nodes.__file__, str(port), str(folder)])
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
        yield port
    finally:
        running.kill()
        running.wait()


def read(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}", timeout=30) as answer:
        return gzip.decompress(answer.read()).decode()


def test_each_address_answers_and_counters_go_on(tmp_path: Path) -> None:
    (tmp_path / "node.prom").write_text(NODE)
    (tmp_path / "dcgm.prom").write_text(monitoring.gpu_metrics(2))
    with served(tmp_path) as port:
        first, second = read(f"127.1.0.1:{port}/metrics"), read(f"127.3.7.9:{port}/metrics")
        gpus = read(f"127.1.0.1:{port}/dcgm")
    assert first == NODE
    assert re.sub(r" \S+$", "", second, flags=re.MULTILINE) == re.sub(r" \S+$", "", first, flags=re.MULTILINE)
    assert monitoring.value(second, "process_cpu_seconds_total") > 2.5
    assert gpus == monitoring.gpu_metrics(2)


def test_every_node_has_an_address_of_its_own() -> None:
    found = monitoring.addresses(60000)
    assert len(set(found)) == 60000
    assert all(re.fullmatch(r"127\.[12]\.\d{1,3}\.\d{1,3}:19100", address) for address in found)
    assert all(0 < int(address.split(":")[0].rsplit(".", 1)[1]) < 255 for address in found)


def test_prometheus_gets_the_rules_and_each_node_twice() -> None:
    written = yaml.safe_load(monitoring.configuration(3, 8, "15s"))
    assert written["rule_files"] == ["/etc/prometheus/rules/busbar_*.yml"]
    assert [job["job_name"] for job in written["scrape_configs"]] == ["node", "dcgm"]
    assert [len(job["static_configs"]) for job in written["scrape_configs"]] == [3, 3]
    assert [job["job_name"] for job in yaml.safe_load(monitoring.configuration(3, 0, "15s"))["scrape_configs"]] == [
        "node"
    ]


def test_metrics_of_gpus_have_no_series_twice() -> None:
    series = [line.rsplit(" ", 1)[0] for line in monitoring.gpu_metrics(8).splitlines()]
    assert len(set(series)) == len(series)
    assert len(series) % 8 == 0
    assert monitoring.gpu_metrics(0) == ""


def test_an_exporter_that_does_not_say_it_is_no_zero() -> None:
    assert monitoring.value(NODE, "process_cpu_seconds_total") == 2.5
    with pytest.raises(ValueError, match="did not say process_start_time_seconds"):
        monitoring.value(NODE, "process_start_time_seconds")


@pytest.mark.parametrize(
    ("words", "said"), [(["--nodes", "0"], "--nodes"), (["--nodes", "many"], "--nodes"), (["--gpus", "99"], "--gpus")]
)
def test_numbers_that_no_cluster_has(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.main(["monitoring", *words, "--runs", "1"]) == 2
    assert said in capsys.readouterr().err
