"""What an exporter says of its node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml
from ansible_collections.busbar.cluster.plugins.module_utils.monitoring.node_exporter_plan import node_exporter_plan
from ansible_collections.busbar.cluster.plugins.module_utils.monitoring.node_facts import exposition, node_facts

TOP = Path(__file__).resolve().parents[5]
NICS = [{"count": 8, "gbps": 400, "rdma": True}, {"count": 2, "gbps": 25, "rdma": False}]


def values(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_a_gpu_node() -> None:
    assert values(exposition(node_facts("dgx_h100", {"gpu": {"count": 8}, "nics": NICS}))) == [
        'busbar_node_info{hardware="dgx_h100"} 1',
        "busbar_node_expected_gpus 8",
        'busbar_node_expected_links{kind="infiniband"} 8',
        'busbar_node_expected_links{kind="ethernet"} 2',
        'busbar_node_expected_link_bytes_per_second{kind="infiniband"} 50000000000',
        'busbar_node_expected_link_bytes_per_second{kind="ethernet"} 3125000000',
    ]


def test_a_node_without_a_profile() -> None:
    assert values(exposition(node_facts("", {}))) == ["busbar_node_info 1", "busbar_node_expected_gpus 0"]


def test_what_prometheus_reads_specially_is_escaped() -> None:
    fact = {"name": "a", "labels": {"path": 'x"\\\n'}, "value": 0.5, "help": "two\nlines"}
    assert exposition([fact]) == '# HELP a two\\nlines\n# TYPE a gauge\na{path="x\\"\\\\\\n"} 0.5\n'


def test_those_of_one_name_stand_together() -> None:
    text = exposition([{"name": name, "value": 1, "labels": {"n": n}} for n, name in enumerate("aba")])
    assert values(text) == ['a{n="0"} 1', 'a{n="2"} 1', 'b{n="1"} 1']
    assert text.count("# TYPE a ") == 1


@pytest.mark.parametrize(
    ("fact", "words"),
    [({"name": "a-b", "value": 1}, "no name of a metric"), ({"name": "a", "value": "x"}, "no number")],
)
def test_wrong_facts(fact: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        exposition([fact])


def settings(**own: Any) -> dict[str, Any]:  # noqa: ANN401 - any option
    return {
        "source": "distribution",
        "packaged": True,
        "archives": {},
        "architecture": "x86_64",
        "program": "/usr/bin/prometheus-node-exporter",
        "address": "10.0.0.1",
        "port": 9100,
        "collectors": ["systemd"],
        "collectors_off": [],
        "systemd_units": ["slurmd", "nvidia-.+"],
        "textfile_dir": "/t",
        "mount_timeout_s": 5,
        "arguments": [],
        "web_config": False,
        "web_flag": "--web.config.file",
        "facts": [],
        "hardware_name": "",
        "profile": {},
        **own,
    }


def words(**own: Any) -> list[str]:  # noqa: ANN401 - any option
    """Return program and arguments, as its unit has them."""
    return list(node_exporter_plan(settings(**own), "gpu1")["command"].split(" \\\n  "))


def test_an_argument_of_two_lines_is_refused() -> None:
    (problem,) = node_exporter_plan(settings(arguments=["--a\n--b"]), "gpu1")["problems"]
    assert (problem["hosts"], problem["key"]) == (["gpu1"], "node_exporter_arguments")


def test_command() -> None:
    assert words(collectors_off=["arp"]) == [
        "/usr/bin/prometheus-node-exporter",
        "--web.listen-address=10.0.0.1:9100",
        "--collector.textfile.directory=/t",
        "--collector.filesystem.mount-timeout=5s",
        (
            "--collector.filesystem.mount-points-exclude="
            "^/(dev|proc|run|sys|var/lib/docker/.+|var/lib/containers/storage/.+)($$|/)"
        ),
        "--collector.systemd",
        "--no-collector.arp",
        "--collector.systemd.unit-include=(slurmd|nvidia-.+)[.]service",
        "--collector.systemd.enable-restarts-metrics",
    ]
    restarts = "--collector.systemd.enable-restarts-metrics"
    # kingpin refuses a switch that is given twice, so that node exporter would not start.
    assert words(arguments=[restarts]).count(restarts) == 1


@pytest.mark.parametrize(
    ("system", "source", "flag"),
    [
        (("Debian", "22.04"), "distribution", "--web.config"),
        (("Debian", "22.04"), "url", "--web.config.file"),
        (("Debian", "24.04"), "distribution", "--web.config.file"),
        (("Debian", "12.12"), "distribution", "--web.config.file"),
        (("RedHat", "9.4"), "url", "--web.config.file"),
    ],
)
def test_each_release_takes_its_web_configuration_by_its_own_flag(
    system: tuple[str, str], source: str, flag: str
) -> None:
    family, version = system
    known = {"node_exporter_source": source, "ansible_facts": {"distribution_version": version}}
    text = yaml.safe_load((TOP / f"roles/node_exporter/vars/{family}.yml").read_text(encoding="utf-8"))
    named = jinja2.Environment(autoescape=False).from_string(text["__node_exporter_web_flag"]).render(known)  # noqa: S701
    assert named == flag
    assert words(web_config=True, web_flag=named)[2] == f"{flag}=/etc/prometheus/node_exporter_web.yml"


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"packaged": False}, "node_exporter_source: this distribution has no package"),
        ({"source": "url"}, "node_exporter_archives: has no url for x86_64"),
        ({"source": "url", "archives": {"x86_64": {"url": "https://m.site/a.tgz"}}}, "sha256 of https"),
        ({"collectors_off": ["systemd"]}, "systemd in node_exporter_collectors, too"),
        ({"facts": [{"name": "a b", "value": 1}]}, "node_exporter_extra_metrics: 'a b' is no name"),
    ],
)
def test_refused(own: dict[str, Any], words: str) -> None:
    (problem,) = node_exporter_plan(settings(**own), "gpu1")["problems"]
    assert words in f"{problem['key']}: {problem['problem']}"
    assert problem["remedy"]
