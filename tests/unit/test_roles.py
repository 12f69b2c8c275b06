"""What every role owes its user: options declared once, documented once."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

TOP = Path(__file__).resolve().parents[2]
ROLES = sorted(path.name for path in (TOP / "roles").iterdir() if path.is_dir())


def load(path: Path) -> Any:  # noqa: ANN401 - YAML is what it is
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def options(role: str) -> dict[str, Any]:
    specs = load(TOP / "roles" / role / "meta" / "argument_specs.yml")["argument_specs"]
    return dict(specs["main"]["options"])


@pytest.mark.parametrize("role", ROLES)
def test_defaults_are_those_of_the_specification(role: str) -> None:
    documented = {name: option["default"] for name, option in options(role).items() if "default" in option}
    assert documented == (load(TOP / "roles" / role / "defaults" / "main.yml") or {})


@pytest.mark.parametrize("role", ROLES)
def test_every_option_is_described_and_carries_the_roles_name(role: str) -> None:
    for name, option in options(role).items():
        assert option.get("description"), f"{role}: {name} has no description"
        assert option.get("type"), f"{role}: {name} has no type"
        assert name.startswith(f"{role}_"), f"{role}: {name} does not begin with {role}_"


@pytest.mark.parametrize("role", ROLES)
def test_readme_is_generated_from_the_specification(role: str, tmp_path: Path) -> None:
    """`scripts/role_readmes` writes the part between the markers; a copy written anew must not differ."""
    original = TOP / "roles" / role
    readme = (original / "README.md").read_text(encoding="utf-8")
    assert "BEGIN_ANSIBLE_DOCS" in readme
    assert "END_ANSIBLE_DOCS" in readme
    copy = tmp_path / role
    (copy / "meta").mkdir(parents=True)
    for name in ("README.md", "meta/main.yml", "meta/argument_specs.yml"):
        shutil.copy(original / name, copy / name)
    subprocess.run([TOP / "scripts" / "role_readmes", copy], check=True, capture_output=True, text=True)
    assert (copy / "README.md").read_text(encoding="utf-8") == readme, f"run scripts/role_readmes roles/{role}"


@pytest.mark.parametrize("role", ROLES)
def test_what_a_host_says_names_no_path_on_the_provisioning_host(role: str) -> None:
    """A fact such as os_family is the host's own word: it may choose among the files of vars/, and no others."""
    for path in (TOP / "roles" / role / "tasks").glob("*.yml"):
        text = path.read_text(encoding="utf-8")
        chosen = re.findall(r"\{\{([^}]*)\}\}\.yml", text)
        assert "include_vars" not in text or chosen, f"{path}: which file is that?"
        for expression in chosen:
            assert expression.rstrip().endswith("| basename"), f"{path}: {expression} may name any file"
