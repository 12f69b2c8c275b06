"""Tests of the parser on third-party recordings next to the checkout, which are not copied into it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.hardware.nvidia_smi import parse_query
from ansible_collections.busbar.cluster.plugins.module_utils.hardware.nvidia_smi_links import (
    parse_nvlink,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recording_checker import check_recordings

CORPUS = Path(__file__).parents[6] / "shared" / "gpu"
INDEX = CORPUS / "index.json"
ENTRIES: list[dict[str, Any]] = json.loads(INDEX.read_text()) if INDEX.is_file() else []
ABSENT = {None, "N/A", "[N/A]", "Not Found", "GPU is lost"}
PER_GPU = (
    "pci_bus_id",
    "product_name",
    "uuid",
    "serial",
    "memory_total_mib",
    "persistence_mode",
    "pcie_gen_max",
    "pcie_gen_current",
    "pcie_width_max",
    "pcie_width_current",
    "mig_mode",
    "mig_devices",
    "ecc_mode",
    "power_limit_w",
)

pytestmark = pytest.mark.skipif(not ENTRIES, reason=f"no recordings in {CORPUS}")


def of_form(form: str) -> pytest.MarkDecorator:
    entries = [entry for entry in ENTRIES if entry["form"] == form]
    return pytest.mark.parametrize("entry", entries, ids=[entry["file"] for entry in entries])


def recording(entry: dict[str, Any]) -> str:
    return (CORPUS / str(entry["file"])).read_text(errors="replace")


def same(want: object, got: object) -> bool:
    if want in ABSENT:
        return got is None
    if isinstance(want, (int, float)) and isinstance(got, (int, float)):
        return math.isclose(want, got, rel_tol=1e-6)
    return want == got


def test_corpus_checker_accepts_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    code, said = check_recordings(CORPUS / "check_gpu.py", "gpu parse --format json", monkeypatch)
    assert code == 0, said
    assert ", 0 failed" in said


@of_form("xml")
def test_xml(entry: dict[str, Any]) -> None:
    data, facts = parse_query(recording(entry)), entry["facts"]
    assert data["form"] == "xml"
    assert data["attached_gpus"] == facts["attached_gpus_field"]
    for gpu, wanted in zip(data["gpus"], facts["gpus"], strict=True):
        assert {"fabric": bool(gpu["fabric"])} == {"fabric": (wanted.get("fabric") or {}).get("state") not in ABSENT}
        assert gpu["odd_texts"] == wanted.get("odd_texts", [])
        assert gpu["lost"] == ("GPU is lost" in wanted.get("odd_texts", []))
        rows = wanted.get("remapped_rows")
        counts = (int(rows["remapped_row_corr"]), int(rows["remapped_row_unc"])) if isinstance(rows, dict) else None
        found = gpu["remapped_rows"]
        assert (found and (found["correctable"], found["uncorrectable"])) == counts


@of_form("q")
def test_text(entry: dict[str, Any]) -> None:
    data, facts = parse_query(recording(entry)), entry["facts"]
    assert data["form"] == "text"
    assert [data[key] for key in ("driver_version", "cuda_version", "attached_gpus", "gpu_count")] == [
        facts[key] for key in ("driver_version", "cuda_version", "attached_gpus_field", "gpu_count")
    ]
    for gpu, wanted in zip(data["gpus"], facts["gpus"], strict=True):
        assert [key for key in PER_GPU if key in wanted and not same(wanted[key], gpu[key])] == []
        pages = str((wanted.get("retired_pages") or {}).get("Retired Pages/Double Bit ECC"))
        assert same(int(pages) if pages.isdigit() else None, (gpu["retired_pages"] or {}).get("double_bit"))


@of_form("csv")
def test_csv(entry: dict[str, Any]) -> None:
    data = parse_query(recording(entry))
    assert data["form"] == "csv"
    for gpu, wanted in zip(data["gpus"], entry["facts"]["gpus"], strict=True):
        assert same(wanted["driver_version"], data["driver_version"])
        for key in ("product_name", "serial", "uuid", "pci_bus_id", "persistence_mode", "ecc_mode", "mig_mode"):
            assert same(wanted[key], gpu[key]), key
        assert gpu["memory_total_mib"] == int(wanted["memory_total"].split()[0])
        assert gpu["power_limit_w"] == float(wanted["power_limit"].split()[0])


@of_form("nvlink")
def test_nvlink(entry: dict[str, Any]) -> None:
    data, facts = parse_nvlink(recording(entry)), entry["facts"]
    keys = ("index", "name", "uuid", "links_active", "links_inactive", "speeds_gb_s")
    assert [{key: gpu[key] for key in keys} for gpu in data["gpus"]] == facts["gpus"]
    assert [gpu["note"] for gpu in data["gpus"] if gpu["note"]] == facts.get("other_lines", [])


READERS = (parse_query, parse_nvlink)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_mutilated_recording_does_not_raise(data: st.DataObject) -> None:
    entry = data.draw(st.sampled_from([each for each in ENTRIES if each["bytes"] < 60_000]))
    text = recording(entry)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.sampled_from([0, 1, 7, 300, 20_000])))
        text = text[:start] + data.draw(st.text(max_size=12)) + text[end:]
    for read in READERS:
        json.dumps(read(text), allow_nan=False)
