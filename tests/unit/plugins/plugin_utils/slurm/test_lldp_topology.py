"""Tests of the topology from LLDP in both formats of lldpctl, recorded on GPU nodes and generated."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.slurm.conf_lines import topology_lines
from ansible_collections.busbar.cluster.plugins.plugin_utils.slurm.lldp_topology import lldp_topology

RECORDED = Path(__file__).parents[4] / "fixtures" / "lldp"


def neighbour(interface: str, switch: str, kind: str = "ifname") -> dict[str, Any]:
    """Return one neighbour in the json0 format."""
    chassis: dict[str, Any] = {"id": [{"type": "mac", "value": f"id of {switch}"}], "name": [{"value": switch}]}
    port = {"id": [{"type": kind, "value": "swp1"}], "descr": [{"value": "x"}], "ttl": [{"value": "120"}]}
    return {"name": interface, "via": "LLDP", "rid": "1", "chassis": [chassis], "port": [port]}


def json0(*neighbours: dict[str, Any]) -> str:
    return json.dumps({"lldp": [{"interface": [*neighbours]} if neighbours else {}]})


def cleaned(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Convert json0 to json like lldpctl: json_element_cleanup in json_writer.c of lldpd 1.0."""
    if isinstance(value, list):
        return cleaned(value[0]) if len(value) == 1 else [cleaned(item) for item in value]
    if not isinstance(value, dict):
        return value
    if list(value) == ["value"]:
        return cleaned(value["value"])
    under = {key: cleaned(item) for key, item in value.items()}
    name = under.pop("name", None)
    return under if name is None else {name: under}


def as_json(text: str) -> str:
    return json.dumps(cleaned(json.loads(text)))


FORMS = pytest.mark.parametrize("form", [str, as_json], ids=["json0", "json"])


def rails(unit: int, *lost: int) -> str:
    """Return the neighbours on eight rails, each with its own switch per unit."""
    return json0(*(neighbour(f"eth_r{rail}", f"r{rail}leaf{unit}") for rail in range(8) if rail not in lost))


@FORMS
def test_eight_rails_on_eight_switches_are_one_unit(form: Any) -> None:  # noqa: ANN401
    heard = {f"gpu{node}": form(rails(1 + (node > 2))) for node in range(1, 5)}
    found = lldp_topology(heard)
    assert found["switches"] == [
        {"name": "unit1", "nodes": "gpu[1-2]"},
        {"name": "unit2", "nodes": "gpu[3-4]"},
        {"name": "fabric", "switches": "unit[1-2]"},
    ]
    assert found["notes"] == [
        "LLDP does not show how these switches are connected: the topology connects all of them to fabric"
    ]
    assert len(topology_lines({"switches": found["switches"]})) == 3


@FORMS
def test_single_switch_gives_its_name(form: Any) -> None:  # noqa: ANN401
    heard = {node: form(json0(neighbour("eth0", "leaf1"))) for node in ("gpu1", "gpu2")}
    assert lldp_topology(heard) == {"switches": [{"name": "leaf1", "nodes": "gpu[1-2]"}], "notes": []}


def test_node_with_a_missing_rail_is_reported_and_stays_in_its_unit() -> None:
    found = lldp_topology({"gpu1": rails(1), "gpu2": rails(1, 5)})
    assert found["switches"] == [{"name": "unit1", "nodes": "gpu[1-2]"}]
    assert found["notes"] == ["gpu2 is connected to 7 of the 8 switches of its neighbours: check its cables"]


@FORMS
def test_machines_and_the_node_itself_are_not_switches(form: Any) -> None:  # noqa: ANN401
    text = json0(
        neighbour("eth0", "leaf1"),
        neighbour("eth0", "gpu1.cluster.site", "mac"),
        neighbour("eth9", "gpu2.cluster.site"),
        neighbour("tmfifo0", "bluefield", "mac"),
    )
    assert lldp_topology({"gpu1": form(text), "gpu2": form(text)})["switches"] == [
        {"name": "leaf1", "nodes": "gpu[1-2]"}
    ]


def test_switches_with_the_same_name_are_distinguished() -> None:
    one, other = neighbour("eth0", "switch"), neighbour("eth0", "switch")
    other["chassis"][0]["id"][0]["value"] = "02:00"
    found = lldp_topology({"gpu1": json0(one), "gpu2": json0(other)})
    assert [entry["name"] for entry in found["switches"]] == ["unit1", "unit2", "fabric"]
    del one["chassis"][0]["name"]
    assert lldp_topology({"gpu1": as_json(json0(one))})["switches"] == [{"name": "unit1", "nodes": "gpu1"}]


def test_shared_network_is_excluded_by_its_interface_names() -> None:
    def heard(unit: int) -> str:
        return json0(neighbour("eno1", "mgmt"), neighbour("eth_r0", f"leaf{unit}"))

    both = {"gpu1": heard(1), "gpu2": heard(2)}
    with pytest.raises(ValueError, match=r"gpu1 and gpu2 share mgmt, but not their other .* --interfaces"):
        lldp_topology(both)
    assert [entry["name"] for entry in lldp_topology(both, "eth_r*")["switches"]] == ["leaf1", "leaf2", "fabric"]


@FORMS
def test_node_without_lldp_from_a_switch_is_named(form: Any) -> None:  # noqa: ANN401
    heard = {"gpu1": rails(1), "gpu2": form(json0()), "gpu3": form(json0(neighbour("eth0", "x", "mac")))}
    with pytest.raises(ValueError, match=r"^gpu\[2-3\] receives no LLDP from a switch: start lldpd there"):
        lldp_topology(heard)
    with pytest.raises(ValueError, match=r"^gpu1 receives no LLDP from a switch at ib\*: "):
        lldp_topology({"gpu1": rails(1)}, "ib*")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "gpu1: `lldpctl -f json0` printed no JSON: install"),
        ("lldpctl: command not found", "gpu1: `lldpctl -f json0` printed no JSON"),
        ("[]", "gpu1: this is not output of `lldpctl -f json`"),
        ('{"lldp": 3}', "gpu1 receives no LLDP from a switch"),
        (
            '{"lldp": [{"interface": [3, {"eth0": {"chassis": "x", "port": []}}]}]}',
            "gpu1 receives no LLDP from a switch",
        ),
    ],
)
def test_invalid_output_of_lldpctl_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is compared below
        lldp_topology({"gpu1": text})
    assert str(caught.value).startswith(words)


def test_recordings_from_gpu_nodes_are_parsed() -> None:
    storage = (RECORDED / "two_uplinks.json").read_text()
    looped = "changliu-g86-016"
    found = lldp_topology({looped: storage, "other": storage}, "eth*")
    assert found["switches"] == [{"name": "CL-RLF237", "nodes": f"other,{looped}"}]
    eight = (RECORDED / "rails.json").read_text()
    found = lldp_topology({"gpu1": eight, "gpu2": eight}, "eth_r*")
    assert found == {"switches": [{"name": "unit1", "nodes": "gpu[1-2]"}], "notes": []}
    less = copy.deepcopy(json.loads(eight))
    less["lldp"]["interface"] = [item for item in less["lldp"]["interface"] if "eth_r1_p3" not in item]
    (note,) = lldp_topology({"gpu1": eight, "gpu2": json.dumps(less)}, "eth_r*")["notes"]
    assert note == "gpu2 is connected to 7 of the 8 switches of its neighbours: check its cables"


def test_lldpd_output_of_debian_13_is_parsed_in_both_formats() -> None:
    for form in ("json", "json0"):
        text = (RECORDED / f"debian13.{form}").read_text()
        assert lldp_topology({"gpu1": text})["switches"] == [{"name": "unit1", "nodes": "gpu1"}]
        assert lldp_topology({"gpu1": text}, "rail0")["switches"] == [{"name": "leaf1", "nodes": "gpu1"}]
