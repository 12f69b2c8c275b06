"""The size of MariaDB's buffer pool depends on the host's memory; below 2 GiB slurmdbd logs an error."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

VARS = Path(__file__).resolve().parents[3] / "roles/mariadb/vars/main.yml"


@pytest.mark.parametrize(
    ("memory_kb", "pool_mb"),
    [
        (400_000, 128),
        (2_000_000, 768),
        (4_194_304, 2048),
        (8_000_000, 3840),
        (16_000_000, 4096),
        (65_800_000, 4096),
        (131_072_000, 6400),
        (1_056_000_000, 51456),
    ],
)
def test_buffer_pool_size_depends_on_the_memory(memory_kb: int, pool_mb: int) -> None:
    variables = {
        key: trust_as_template(value)
        for key, value in yaml.safe_load(VARS.read_text()).items()
        if isinstance(value, str)
    }
    meminfo = f"MemTotal:       {memory_kb} kB\nMemFree:        1024 kB\n"
    variables["__mariadb_meminfo"] = {"content": base64.b64encode(meminfo.encode()).decode()}
    options = yaml.safe_load(VARS.read_text())["__mariadb_options"]
    text = trust_as_template(options["innodb_buffer_pool_size"])
    assert Templar(loader=DataLoader(), variables=variables).template(text) == f"{pool_mb}M"
