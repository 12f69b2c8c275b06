"""Tests of `busbar hardware`, the catalogue with its sources."""

from __future__ import annotations

import json

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.builtin_profiles import profile_names
from busbar.cli import main


def test_list_names_every_profile(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hardware", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(profile_names())
    assert main(["hardware", "list", "--format", "json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == set(profile_names())


@pytest.mark.parametrize("name", profile_names())
def test_show_prints_every_source_of_a_profile(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hardware", "show", name, "--format", "json"]) == 0
    profile = json.loads(capsys.readouterr().out)
    assert main(["hardware", "show", name]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    sources, left = [], [profile]
    while left:
        each = left.pop()
        left += [
            value for value in (each.values() if isinstance(each, dict) else each) if isinstance(value, (dict, list))
        ]
        sources += [each["source"]] if isinstance(each, dict) and "source" in each else []
    assert [source for source in sources if " ".join(source.split()) not in shown] == []


def test_unknown_profile_is_refused_with_similar_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hardware", "show", "dgxh100"]) == 2
    said = capsys.readouterr().err
    assert "'dgxh100' (did you mean dgx_h100" in said
    assert "busbar hardware list" in said
