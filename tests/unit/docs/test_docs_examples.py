"""The examples of the documentation use only existing options and valid commands."""

from __future__ import annotations

import itertools
import re
import shlex
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.inventory.manager import InventoryManager
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.parsing.dataloader import DataLoader
from ansible_collections.busbar.cluster.plugins.lookup.inventory_checks import unknown_option_problems
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.merged_profiles import site_profile
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.profile_check import profile_problems
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.stage_registry import choices
from ansible_collections.busbar.cluster.plugins.plugin_utils.preflight.options import type_problems
from ansible_collections.busbar.cluster.plugins.plugin_utils.site_variables import (
    SITE_VARIABLES,
    declared_options,
    family_names,
    site_settings,
)
from busbar.adopt.tables import rows
from busbar.cli import parser
from markdown_blocks import Block, blocks

TOP = Path(__file__).resolve().parents[3]
PAGES = [TOP / "README.md", TOP / "CONTRIBUTING.md", *sorted((TOP / "docs").glob("*.md"))]
KINDS = {"inventory", "group_vars"}
BASE = """\
all:
  children:
    slurm_controller: {hosts: {ctl: {ansible_host: 192.0.2.1}}}
    slurm_compute: {hosts: {"gpu[1:3]": }, vars: {hardware: dgx_h100}}
"""


def examples() -> list[tuple[str, Block]]:
    """Return the marked blocks, each with its page and line."""
    return [
        (f"{path.relative_to(TOP)}:{block.line}", block)
        for path in PAGES
        for block in blocks(path.read_text(encoding="utf-8"))
        if block.mark
    ]


def problems(folder: Path, block: Block) -> list[str]:
    """Return the problems that the validation of options finds in a block."""
    kind = block.mark.split()[0]
    (folder / "group_vars").mkdir(exist_ok=True)
    (folder / "hosts.yml").write_text(block.text if kind == "inventory" else BASE)
    (folder / "group_vars" / "all.yml").write_text(block.text if kind == "group_vars" else "---\n{}\n")
    loader = DataLoader()
    sources = [str(folder / "hosts.yml")]
    settings = site_settings(InventoryManager(loader=loader, sources=sources), loader, sources)
    found = [*unknown_option_problems(settings, []), *type_problems(settings, declared_options())]
    said = [f"{each['key']} {each['problem']}" for each in found]
    for setting in settings:
        option = declared_options().get(setting.name)
        if option and "{{" not in str(setting.value):
            spec = {setting.name: {**option.spec, "required": False}}
            said += ArgumentSpecValidator(spec).validate({setting.name: setting.value}).error_messages
    return said


@pytest.mark.parametrize(("where", "block"), examples(), ids=lambda value: value if isinstance(value, str) else "")
def test_example_sets_only_existing_options(where: str, block: Block, tmp_path: Path) -> None:
    assert block.mark.split()[0] in KINDS, f"{where}: an example is of {KINDS}"
    assert problems(tmp_path, block) == [], where


def test_hardware_profiles_of_the_examples_are_valid() -> None:
    profiles = [yaml.safe_load(block.text) for _, block in examples() if "hardware_profiles_extra" in block.text]
    assert profiles
    for said in profiles:
        extra = said["hardware_profiles_extra"]
        assert [problem for name in extra for problem in profile_problems(name, site_profile(name, extra))] == []


@lru_cache
def known_names() -> set[str]:
    """Return all options, their suboptions, and other variables that a text may name."""
    names: set[str] = {*SITE_VARIABLES, "hardware"}

    def add(options: dict[str, Any]) -> None:
        for name, option in options.items():
            names.add(name)
            add(option.get("options") or {})

    for path in (TOP / "roles").glob("*/meta/argument_specs.yml"):
        for entry in yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"].values():
            add(entry.get("options") or {})
    return names


def test_options_named_in_texts_exist() -> None:
    """Check inline code: `role_option`, also with a value after it."""
    known, families = known_names(), tuple(f"{name}_" for name in family_names())
    groups = {path.stem for path in (TOP / "roles").iterdir()} | {"slurm_controller", "slurm_database", "slurm_login"}
    groups |= {"slurm_compute", "nfs_server", "nfs_client"}
    plugins = {*choices(), *(path.stem for path in (TOP / "plugins").rglob("*.py"))}
    strange = []
    foreign = {name for toolkit in ("deepops", "appliance") for row in rows(toolkit) for name in row.names}
    for path in PAGES:
        other = foreign if path.name == "adopt.md" else set()
        text = re.sub(r"^(```+).*?^\1", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        # Headings quote messages of other programs.
        text = re.sub(r"^### .*$", "", text, flags=re.MULTILINE)
        for code in re.findall(r"`([^`]+)`", text):
            name = re.match(r"(?:-e )?([a-z][a-z0-9_]*[a-z0-9])(?=$|[:= ])", code)
            if name and name[1].startswith(families) and name[1] not in known | groups | plugins | other:
                strange.append(f"{path.relative_to(TOP)}: {code}")
    assert strange == []


def test_every_playbook_and_every_stage_is_in_its_table() -> None:
    playbooks = {path.stem for path in (TOP / "playbooks").glob("*.yml")}
    pages = {name: (TOP / name).read_text(encoding="utf-8") for name in ("docs/commands.md", "docs/validation.md")}
    assert {name for name in playbooks if f"\n| [{name}](" not in pages["docs/commands.md"]} == set()
    assert {name for name in choices() if f"\n| `{name}` |" not in pages["docs/validation.md"]} == set()


def commands() -> list[tuple[str, str]]:
    """Return the commands of the console blocks, each with its page."""
    return [
        (f"{path.relative_to(TOP)}:{block.line}", command.removeprefix("$ ").strip())
        for path in PAGES
        for block in blocks(path.read_text(encoding="utf-8"))
        if block.language == "console"
        for line in block.text.splitlines()
        if line.startswith("$ ")
        for command in line.removeprefix("$ ").split(" && ")
    ]


@lru_cache
def of_playbooks() -> set[str]:
    """Return the options of playbooks that belong to no role."""
    declared = (TOP / "playbooks/vars").glob("*.yml")
    listed = {
        name
        for path in declared
        for name in re.findall(r"\b(?:update_nodes|repair_nodes|upgrade_slurm|uninstall)_\w+", path.read_text())
    }
    chosen = {"new_nodes", "remove_nodes", "remove_nodes_wait", "replace_node", "update_nodes", "repair_nodes"}
    return listed | chosen | {"rotate_secrets", "replace_node_same_machine"}


@pytest.mark.parametrize(("where", "command"), commands())
def test_commands_of_the_pages_are_valid(where: str, command: str) -> None:
    words = shlex.split(command, comments=True)
    if words[0] == "busbar":
        given = parser(words[1]).parse_args([word for word in words[1:] if word != "…"])
        if words[1] == "provision":
            assert (TOP / "playbooks" / f"{given.playbook}.yml").is_file(), where
        for name, _, _ in (pair.partition("=") for flag, pair in itertools.pairwise(words) if flag == "-e"):
            assert name in known_names() | of_playbooks(), f"{where}: {name}"
    elif "/" in words[0] and not words[0].startswith("."):
        assert (TOP / words[0]).is_file(), where
