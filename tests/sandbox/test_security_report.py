"""`busbar security report`: real lynis on a node, what it finds, and what is explained."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from conftest import as_json

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Cluster

pytestmark = pytest.mark.proves("preflight")


def test_what_nothing_explains_is_listed_until_the_site_does(sandbox: Cluster, tmp_path: Path) -> None:
    page, own, node = tmp_path / "report.md", tmp_path / "exceptions.yml", sandbox.compute[0]
    # A second account with the rights of root, for which nobody has an explanation.
    sandbox.exec(node, "echo 'toor:x:0:0::/root:/bin/bash' >>/etc/passwd")
    try:
        report = ["security", "report", "-i", str(sandbox.inventory), "--limit", node, "--json"]
        done = sandbox.busbar(*report, "--output", str(page), timeout=900)
        found = as_json(done.stdout)
        assert found["failures"] == []
        assert 0 < found["hosts"][node]["index"] < 100
        left = [row for row in found["findings"] if not row["reason"]]
        assert any(row["test"] == "AUTH-9204" for row in left), left
        assert (done.returncode, all(row["hosts"] == [node] for row in left)) == (1, True)
        assert "| AUTH-9204 |" in page.read_text(encoding="utf-8").split("## Explained")[0]
        explained = [row["test"] for row in found["findings"] if row["reason"]]
        assert len(explained) > len(left)
        own.write_text(json.dumps([{"test": row["test"], "reason": "the site knows"} for row in left]))
        again = sandbox.busbar(*report, "--exceptions", str(own), timeout=900)
        assert again.returncode == 0, again.stdout + again.stderr
    finally:
        sandbox.exec(node, "sed -i /^toor:/d /etc/passwd; apt-get -qq purge -y lynis", timeout=300)


def test_exceptions_without_a_reason_are_refused_before_a_host_is_asked(sandbox: Cluster, tmp_path: Path) -> None:
    own = tmp_path / "exceptions.yml"
    own.write_text("- {test: SSH-7408}\n")
    refused = sandbox.busbar("security", "report", "-i", str(sandbox.inventory), "--exceptions", str(own))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "exceptions.yml: entry 1 is not test, reason and, by choice, detail" in refused.stderr
