"""Reference pages of the plugins, from the documentation in their files."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

import yaml
from antsibull_docs_parser.md import to_md
from antsibull_docs_parser.parser import Context, parse

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["plugin_page"]

HEADS = {
    "modules": "# Modules\n\nThe modules of the collection. The roles use them; a playbook of your own can, too.\n",
    "filter": "# Filters\n\nMost of them compute a plan for the whole cluster, on the provisioning host.\n",
    "lookup": "# Lookups\n\nWhat roles look up on the provisioning host: profiles, secrets, certificates.\n",
    "action": "# Actions\n\nThe part of some modules that runs on the provisioning host.\n",
    "callback": "# Callbacks\n\nWhat `callbacks_enabled` in `ansible.cfg` names.\n",
}


def documented(path: Path) -> dict[str, Any]:
    """The texts DOCUMENTATION, EXAMPLES and RETURN of a plugin; what is missing is missing here, too.

    Modules of the same name document an action, which then has none.
    """
    found: dict[str, Any] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            name = ast.unparse(node.targets[0])
            found[name] = node.value.value if name == "EXAMPLES" else yaml.safe_load(node.value.value)
    return found


def rendered(text: str | list[str]) -> str:
    """Ansible's markup as Markdown, in one line."""
    paragraphs = parse([text] if isinstance(text, str) else text, Context())
    # References to options and plugins are code here: they need no link to an option a few lines further.
    return " ".join(re.sub(r"</?[a-z][^>]*>", "", to_md(paragraphs)).split())


def option_rows(options: dict[str, Any], prefix: str = "") -> list[str]:
    """The rows of a table of options, those of options within them after theirs."""
    rows = []
    for name, option in options.items():
        kind = option.get("type", "str")
        if option.get("elements"):
            kind += f" of {option['elements']}"
        default = "required" if option.get("required") else f"`{option['default']}`" if "default" in option else ""
        said = rendered(option["description"])
        if option.get("choices"):
            said += f" One of {', '.join(f'`{choice}`' for choice in option['choices'])}."
        cells = [f"`{prefix}{name}`", kind, default.replace("|", "\\|"), said.replace("|", "\\|")]
        rows.append(f"| {' | '.join(cells)} |")
        rows += option_rows(option.get("suboptions") or {}, f"{prefix}{name}.")
    return rows


def plugin_section(path: Path) -> str:
    """The section of one plugin; '' for one that another documents."""
    texts = documented(path)
    if "DOCUMENTATION" not in texts:
        return ""
    said = texts["DOCUMENTATION"]
    lines = [f"## {path.stem}", "", f"{rendered(said['short_description']).rstrip('.')}.", ""]
    lines += [f"{rendered(each)}\n" for each in _listed(said.get("description"))]
    if said.get("options"):
        lines += [
            "| option | type | default | meaning |",
            "| --- | --- | --- | --- |",
            *option_rows(said["options"]),
            "",
        ]
    if texts.get("EXAMPLES", "").strip():
        lines += ["```yaml", texts["EXAMPLES"].strip(), "```", ""]
    if texts.get("RETURN"):
        lines += ["| returns | type | meaning |", "| --- | --- | --- |"]
        for name, value in texts["RETURN"].items():
            meaning = rendered(value["description"]).replace("|", "\\|")
            lines.append(f"| `{name}` | {value.get('type', '')} | {meaning} |")
        lines.append("")
    return "\n".join(lines)


def _listed(text: str | list[str] | None) -> list[str]:
    return [] if text is None else [text] if isinstance(text, str) else text


def plugin_page(folder: Path) -> str:
    """The page of one kind of plugins, whose folder it is."""
    sections = [plugin_section(path) for path in sorted(folder.glob("*.py"))]
    return "\n".join([HEADS[folder.name], *filter(None, sections)])
