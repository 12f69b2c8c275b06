"""A list in a YAML file is edited, and all other text is kept."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from busbar.users.yaml_edit import CannotEditError, YamlFile

FLOW = """\
---
# People of the institute.
users_accounts:
  - {name: alice, uid: 2001, groups: [a, b]}   # since 2020

  # bob comes on Mondays
  - {name: bob, uid: 2002, state: absent}
# the end of the list
slurm_partitions:   [  {name: batch} ]
"""
BLOCK = """\
users_accounts:
- name: alice   # the first
  uid: 2001
  authorized_keys:
    # at home
    - "ssh-ed25519 AAAA alice@home"
    - ssh-ed25519 BBBB alice@work   # her desk
  comment: >-
    Alice
    Example
- uid: 2002
  name: bob
other: 1
"""


def data(text: str) -> dict[str, Any]:
    return dict(yaml.safe_load(text))


def lists(text: str) -> list[dict[str, Any]]:
    return list(data(text)["users_accounts"])


def test_entry_is_added_in_the_style_of_the_others() -> None:
    carol = {"name": "carol", "uid": 2003, "groups": ["a"]}
    for text, line in ((FLOW, "  - {name: carol, uid: 2003, groups: [a]}\n"), (BLOCK, "- name: carol\n  uid: 2003\n")):
        after = YamlFile(text, "users_accounts").result([*lists(text), carol])
        assert line in after
        assert lists(after)[-1] == carol
        added = {each for each in after.splitlines() if each not in text.splitlines()}
        assert [each for each in after.splitlines() if each not in added] == text.splitlines()


@pytest.mark.parametrize(
    "text", ["", "---\n", "a: 1", "---\nusers_accounts:\n", "users_accounts: []\nb: 2\n", "users_accounts: [] # none\n"]
)
def test_missing_or_empty_list_is_created(text: str) -> None:
    carol = {"name": "carol", "uid": 2003}
    after = YamlFile(text, "users_accounts").result([carol])
    assert lists(after) == [carol]
    assert data(after).get("b") == data(text or "{}").get("b") if text.startswith("users") else True


def test_fields_are_set_and_removed() -> None:
    for text in (FLOW, BLOCK):
        expected = lists(text)
        expected[0] |= {"locked": True, "uid": 2008}
        expected[1]["uid"] = 2009
        expected[1].pop("state", None)
        after = YamlFile(text, "users_accounts").result(expected)
        assert lists(after) == expected
        for comment in ("# since 2020", "# bob comes on Mondays", "# the first", "# her desk", "# at home"):
            assert (comment in after) == (comment in text)


def test_first_field_of_an_entry_is_removed() -> None:
    for text in (BLOCK, "users_accounts: [{uid: 2002, name: bob}]\n"):
        expected = lists(text)
        del expected[-1]["uid"]
        assert lists(YamlFile(text, "users_accounts").result(expected)) == expected


def test_unchanged_keys_keep_their_lines() -> None:
    expected = lists(BLOCK)
    wanted = ["ssh-ed25519 BBBB alice@work", "ssh-ed25519 CCCC alice@bus"]
    expected[0]["authorized_keys"] = wanted
    after = YamlFile(BLOCK, "users_accounts").result(expected)
    assert "    - ssh-ed25519 BBBB alice@work   # her desk\n    - ssh-ed25519 CCCC alice@bus\n" in after
    assert "AAAA" not in after
    del expected[0]["authorized_keys"]
    assert lists(YamlFile(BLOCK, "users_accounts").result(expected)) == expected


def test_unsupported_yaml_is_refused() -> None:
    anchored = "x: &one {name: alice, uid: 1}\nusers_accounts:\n  - *one\n"
    with pytest.raises(CannotEditError, match="anchors"):
        YamlFile(anchored, "users_accounts").result([{"name": "alice", "uid": 2}])
    for text in ("- a\n", "a: [\n"):
        with pytest.raises(CannotEditError):
            YamlFile(text, "users_accounts")
    for text in ("users_accounts: '{{ them }}'\n", "users_accounts: [alice]\n", "users_accounts: [{uid: 1}]\n"):
        with pytest.raises(CannotEditError, match="plain list"):
            YamlFile(text, "users_accounts").items()


def test_values_of_a_vault_are_kept() -> None:
    text = "users_accounts:\n  - name: alice\n    password_hash: !vault |\n      $ANSIBLE_VAULT;1.1\n      3031\nz: 1\n"
    file = YamlFile(text, "users_accounts")
    expected = [file.items()[0] | {"locked": True}]
    after = file.result(expected)
    assert "      3031\n    locked: true\nz: 1\n" in after
    assert YamlFile(after, "users_accounts").section() == after.removesuffix("z: 1\n")


def test_fields_of_an_anchor_are_kept() -> None:
    text = "base: &base {group: ml, locked: true}\nusers_accounts:\n  - {<<: *base, name: alice}\n"
    entry = {"group": "ml", "locked": True, "name": "alice"}
    after = YamlFile(text, "users_accounts").result([entry | {"uid": 2001}])
    assert after == text.replace("name: alice}", "name: alice, uid: 2001}")
    with pytest.raises(CannotEditError, match="anchors"):
        YamlFile(text, "users_accounts").result([{"group": "ml", "name": "alice"}])
