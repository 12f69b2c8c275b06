"""Tests that invalid YAML in an inventory is reported with line and column."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.inventory_yaml import yaml_problems

TOP = Path(__file__).resolve().parents[4]


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """Return a valid inventory, with files that Ansible does not read next to it."""
    folder = tmp_path / "inventory"
    (folder / "group_vars" / "all").mkdir(parents=True)
    (folder / "hosts.yml").write_text("all: {hosts: {gpu1: }}\n")
    (folder / "hosts.ini").write_text("[all\n")
    (folder / ".hidden.yml").write_text("[")
    (folder / "group_vars/all/a.yml").write_text(
        "key: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  3132\nother: !unsafe '{{'\n"
    )
    (folder / "group_vars/all/vault.yml").write_text("$ANSIBLE_VAULT;1.1;AES256\n3132\n")
    (folder / "group_vars/all/notes.txt").write_text("[")
    (folder / "group_vars/all/hosts.yml.1.orig").write_text("[")
    (folder / "group_vars/all/empty.yml").write_text("---\n# nothing\n")
    return folder


def test_valid_inventory_and_the_shipped_one_have_no_problem(inventory: Path) -> None:
    assert yaml_problems([str(inventory), "gpu1,gpu2,"], TOP / "playbooks/site.yml") == []
    assert yaml_problems([str(TOP / "inventory")]) == []


@pytest.mark.parametrize("name", ["group_vars/all/x.yml", "group_vars/gpu", "host_vars/gpu1.json", "more.yaml"])
def test_each_inventory_location_is_checked(inventory: Path, name: str) -> None:
    path = inventory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("a: 1\nb: {c: 2\nd: 3\n")
    expected = [f"{path}:3:2: did not find expected ',' or '}}' (while parsing a flow mapping that starts in line 2)"]
    assert yaml_problems([str(inventory)]) == expected
    of_file = yaml_problems([str(inventory / "hosts.yml")])
    assert of_file == ([] if name == "more.yaml" else expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\n\tb: 2\n", ":2:1: found a tab character that violates indentation"),
        ("a: b: c\n", ":1:5: mapping values are not allowed in this context"),
        ("a: *nowhere\n", ":1:4: found undefined alias"),
        ("a: 1\n---\nb: 2\n", ":2:1: but found another document"),
        ("- a\n- b\n", ":1: is not a mapping: write variables as 'name: value'"),
        ("only words\n", ":1: is not a mapping"),
    ],
)
def test_syntax_errors_are_reported(inventory: Path, text: str, expected: str) -> None:
    path = inventory / "group_vars/all/x.yml"
    path.write_text(text)
    (problem,) = yaml_problems([str(inventory)])
    assert problem.startswith(f"{path}{expected}")


def test_files_that_are_not_text_or_unreadable_are_reported(inventory: Path) -> None:
    (inventory / "group_vars/all/x.yml").write_bytes(b"\xff\xfe\x00")
    (inventory / "group_vars/all/y.yml").symlink_to("nowhere")
    first, second = yaml_problems([str(inventory)])
    assert "x.yml: is not UTF-8 text" in first
    assert "y.yml: cannot be read: No such file" in second


def test_links_to_directories_are_followed(inventory: Path, tmp_path: Path) -> None:
    (inventory / "group_vars").rename(tmp_path / "group_vars")
    (inventory / "group_vars").symlink_to("../group_vars")
    (tmp_path / "group_vars/all/x.yml").write_text("[")
    assert len(yaml_problems([str(inventory)])) == 1


def test_secret_is_not_quoted(inventory: Path) -> None:
    (inventory / "group_vars/all/x.yml").write_text('munge_key: "correct-horse\nother: 1\n')
    assert "correct-horse" not in " ".join(yaml_problems([str(inventory)]))


@pytest.mark.parametrize(
    ("name", "text", "line", "key", "first"),
    [
        (
            "hosts.yml",
            "all:\n  hosts:\n    n01: {ansible_host: 192.0.2.1}\n    n01: {ansible_host: 192.0.2.2}\n",
            4,
            "n01",
            3,
        ),
        ("hosts.yml", "all: {hosts: {n1: , n2: ,\n  n1: }}\n", 2, "n1", 1),
        ("group_vars/all/x.yml", "a: 1\nb: 2\na: 3\n", 3, "a", 1),
        ("group_vars/all/x.yml", "users:\n  - {name: a,\n     uid: 1,\n     uid: 2}\n", 4, "uid", 3),
        ("host_vars/gpu1.yml", "a: &x {b: 1,\n  b: 2}\nc: *x\n", 2, "b", 1),
        ("host_vars/gpu1.json", '{"a": 1,\n "a": 2}\n', 2, "a", 1),
    ],
)
def test_duplicate_key_is_reported_with_both_lines(  # noqa: PLR0913, PLR0917 - a table
    inventory: Path, name: str, text: str, line: int, key: str, first: int
) -> None:
    path = inventory / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    (problem,) = yaml_problems([str(inventory)])
    assert problem.startswith(f"{path}:{line}:")
    assert f"{key} duplicates line {first}" in problem


def test_equal_keys_of_different_mappings_and_merges_are_accepted(inventory: Path) -> None:
    text = "a: {k: 1}\nb: {k: 2}\nc: &c {k: 3}\nd: {<<: *c, k: 4}\n1: x\n'1': y\n"
    (inventory / "group_vars/all/x.yml").write_text(text)
    assert yaml_problems([str(inventory)]) == []


def test_host_listed_twice_in_an_ini_group_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("n01\n[slurm_compute]\nn01 ansible_host=a # n01\nn02\n[login]\nn01\n[all:vars]\nx=1\n")
    assert yaml_problems([str(path)]) == []
    path.write_text("[slurm_compute]\nn01 ansible_host=a\n; n01\nn01 ansible_host=b\n[all:vars]\nx = 1\nx=2\n")
    host, variable = yaml_problems([str(path)])
    assert host.startswith(f"{path}:4: n01 duplicates line 2")
    assert variable.startswith(f"{path}:7: x duplicates line 6")
    path.chmod(0o755)
    assert yaml_problems([str(path)]) == [], "a program prints the inventory"


@pytest.mark.parametrize("name", ["hosts", "hosts.json"])
def test_yaml_is_detected_without_its_extension(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(
        "# hosts\n\nall:\n  children:\n    a:\n      hosts:\n        n1:\n    b:\n      hosts:\n        n1:\n"
    )
    if name == "hosts.json":
        path.write_text('{"all": {"children": {"a": {"hosts": {"n1": {}}}, "b": {"hosts": {"n1": {}}}}}}')
    for source in (path, tmp_path):
        assert yaml_problems([str(source)]) == []
    path.write_text("---\nall: {hosts: {n1: , n1: }}\n")
    for source in (path, tmp_path):
        (problem,) = yaml_problems([str(source)])
        assert problem.startswith(f"{path}:2:")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("all:\n  hosts: [n1]\n", 2, "hosts of the group all is a list"),
        ("all:\n  children:\n    - dgx\n", 2, "children of the group all is a list"),
        ("all:\n  children:\n    dgx: [n1]\n", 3, "group dgx is not a mapping"),
        ("all:\n  hosts:\n    n1:\n      hardware dgx_h100\n", 3, "host n1 is not a mapping"),
        ("all:\n  host: {n1: }\n", 2, "host has no effect in the group all: did you mean hosts?"),
        ("all:\n  childern: {dgx: {hosts: {n1: }}}\n", 2, "did you mean children?"),
        (
            "all:\n  children:\n    dgx:\n      n1: {ansible_host: x}\n",
            4,
            "n1 has no effect in the group dgx: list hosts under hosts",
        ),
        ("all:\n  vars: {a: 1}\n  hardware: dgx_h100\n", 3, "hardware has no effect in the group all"),
    ],
)
def test_invalid_key_of_a_group_is_reported(inventory: Path, text: str, line: int, words: str) -> None:
    path = inventory / "hosts.yml"
    path.write_text(text)
    (problem,) = yaml_problems([str(inventory)])
    assert problem.startswith(f"{path}:{line}:")
    assert words in problem


def test_recursive_alias_terminates(inventory: Path) -> None:
    (inventory / "hosts.yml").write_text("all: &a\n  children: {b: *a}\n")
    assert yaml_problems([str(inventory)]) == []


def test_settings_of_an_inventory_plugin_are_not_groups(inventory: Path) -> None:
    (inventory / "cloud.yml").write_text("plugin: some.cloud\nregions: {a: {b: 1}}\n")
    assert yaml_problems([str(inventory)]) == []
