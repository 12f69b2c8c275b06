"""Tests of the selection of the file server that sets the quotas of homes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

ROLE = Path(__file__).resolve().parents[3] / "roles/home_quota"


@pytest.mark.parametrize(
    ("exports", "path", "here"),
    [
        (["/shared"], "/shared/home", True),
        (["/data", "/shared/"], "/shared/home", True),
        (["/shared/home"], "/shared/home", True),
        # The homes of another server; this path is only a part of theirs.
        (["/home"], "/shared/home", False),
        (["/shared2"], "/shared/home", False),
        (["/sh.red"], "/shared/home", False),
        ([], "/shared/home", False),
    ],
)
def test_quotas_are_set_on_the_server_that_exports_the_homes(exports: list[str], path: str, *, here: bool) -> None:
    known = yaml.safe_load((ROLE / "vars/main.yml").read_text(encoding="utf-8"))
    variables = {
        "__home_quota_exports": {"nfs1": [{"path": each} for each in exports]},
        "inventory_hostname": "nfs1",
        "__home_quota_path": path,
    }
    asked = trust_as_template(known["__home_quota_is_here"])
    assert Templar(loader=DataLoader(), variables=variables).template(asked) is here
