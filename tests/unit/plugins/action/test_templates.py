"""Tests of the action that renders the files of a task."""

from __future__ import annotations

import base64
import io
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible.template import Templar, trust_as_template
from ansible_collections.busbar.cluster.plugins.action.templates import ActionModule, checked, sources
from plays import played

TOP = Path(__file__).resolve().parents[4]


class Local:
    """The attributes of a connection that an action without a host uses."""

    class _shell:  # noqa: N801 - Ansible's name
        tmpdir = None


class Handed(ActionModule):
    """The action without a host: its result is the arguments of the module."""

    def _execute_module(self, module_args: dict[str, Any], task_vars: object) -> dict[str, Any]:
        del task_vars
        return module_args


@pytest.fixture
def role(tmp_path: Path) -> Path:
    for name, text in {
        "templates/etc/a.conf.j2": "# {{ ansible_managed }}\n{% if wanted %}\nwanted = {{ wanted }}\n{% endif %}\n",
        "templates/etc/bad.conf.j2": "first\n{{ nobody_sets_this }}\n",
        "templates/other.j2": "{% include 'etc/part.j2' %}\n",
        "templates/etc/part.j2": "of {{ wanted }}",
        "files/etc/plain": "{{ as it is }}\n\n",
        "files/boards/b.json": '{"b": "{{ x }}"}',
        "files/boards/a.json": "{}",
        "files/tool.py": "from ansible_collections.busbar.cluster.plugins.module_utils.slurm import node_states\n",
        "files/beside.py": "",
        "files/broken.py": "from ansible_collections.busbar.cluster.plugins.module_utils.gone import x\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def run(role: Path, *files: dict[str, Any], **arguments: object) -> dict[str, Any]:
    """Return the arguments that the module would get, with files by their paths."""
    task = Task()
    task.name = "example | Write the files"
    task.action, task.args = "busbar.cluster.templates", {"files": list(files), **arguments}
    loader = DataLoader()
    variables = {"ansible_search_path": [str(role)], "wanted": 3, "ansible_managed": trust_as_template("by busbar")}
    templar = Templar(loader=loader, variables=variables)
    result = dict(Handed(task, Local(), None, loader, templar, None).run(task_vars=variables))
    return result | {"files": {entry["path"]: entry for entry in result["files"]}}


def test_sources_are_found_in_the_role_by_their_path_on_the_host(role: Path) -> None:
    result = run(role, {"dest": "/etc/a.conf", "mode": "0600", "hidden": True}, {"dest": "/etc/plain"})
    assert result["files"]["/etc/a.conf"] == {
        "path": "/etc/a.conf",
        "mode": "0600",
        "hidden": True,
        "content": "# by busbar\nwanted = 3\n",
    }
    assert result["files"]["/etc/plain"]["content"] == "{{ as it is }}\n\n"


def test_source_and_content_can_be_given(role: Path) -> None:
    result = run(
        role,
        {"dest": "/opt/x", "src": "other.j2"},
        {"dest": "/opt/y", "content": "{{ y }}"},
        {"dest": "/opt/z", "src": "etc/plain"},
        {"dest": "/opt/v", "src": "other.j2", "vars": {"wanted": 4}},
    )
    texts = {path: entry["content"] for path, entry in result["files"].items()}
    assert texts == {"/opt/x": "of 3\n", "/opt/y": "{{ y }}", "/opt/z": "{{ as it is }}\n\n", "/opt/v": "of 4\n"}


def test_absent_file_is_not_rendered_and_false_condition_is_skipped(role: Path) -> None:
    result = run(role, {"dest": "/etc/bad.conf", "state": "absent"}, {"dest": "/etc/gone", "when": False})
    assert result["files"] == {"/etc/bad.conf": {"path": "/etc/bad.conf", "state": "absent"}}


def test_extra_files_come_first_and_the_note_is_passed_on(role: Path) -> None:
    more = [{"path": "/etc/rule", "content": "made"}]
    result = run(role, {"dest": "/etc/plain"}, more=more, pending="/var/lib/note")
    assert list(result["files"]) == ["/etc/rule", "/etc/plain"]
    assert result["pending"] == "/var/lib/note"
    assert "pending" not in run(role, {"dest": "/etc/plain"})


def test_extra_files_can_share_one_template(role: Path) -> None:
    more = [
        {"path": "/etc/4", "vars": {"wanted": 4}, "src": "other.j2", "mode": "0600"},
        {"path": "/etc/5", "state": "absent", "src": "other.j2"},
    ]
    assert run(role, more=more)["files"] == {
        "/etc/4": {"path": "/etc/4", "mode": "0600", "content": "of 4\n"},
        "/etc/5": {"path": "/etc/5", "state": "absent"},
    }
    with pytest.raises(AnsibleError, match="/etc/4 is listed twice"):
        run(role, {"dest": "/etc/4", "content": ""}, more=more)


def test_files_of_a_source_directory_are_written_to_a_directory(role: Path) -> None:
    kept = run(role, {"dest": "/srv/boards", "src": "boards/", "mode": "0640"})["files"]
    assert kept == {
        "/srv/boards/a.json": {"path": "/srv/boards/a.json", "mode": "0640", "content": "{}"},
        "/srv/boards/b.json": {"path": "/srv/boards/b.json", "mode": "0640", "content": '{"b": "{{ x }}"}'},
    }
    assert run(role, {"dest": "/srv/boards", "src": "boards/", "when": False})["files"] == {}


def test_undefined_variable_is_reported(role: Path) -> None:
    task = {"busbar.cluster.templates": {"files": [{"dest": "/etc/bad.conf"}]}}
    code, said = played(role, [{"hosts": "localhost", "gather_facts": False, "tasks": [task]}], "localhost")
    assert code == 2, said
    assert "nobody_sets_this" in said
    assert f"{role}/templates/etc/bad.conf.j2" in said


def test_program_is_packed_with_its_imports(role: Path) -> None:
    entry = run(role, {"dest": "/bin/tool", "program": ["tool.py", "beside.py"]})["files"]["/bin/tool"]
    assert (entry["mode"], "content" in entry) == ("0755", False)
    with zipfile.ZipFile(io.BytesIO(zlib.decompress(base64.b64decode(entry["packed"])))) as archive:
        names = archive.namelist()
    assert {"__main__.py", "beside.py"} <= set(names)
    assert "ansible_collections/busbar/cluster/plugins/module_utils/slurm/node_states.py" in names


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ([{"dest": "/etc/none"}], "/etc/none: templates/etc/none.j2 or files/etc/none"),
        ([{"dest": "/etc/a.conf", "src": "none.j2"}], "templates/none.j2 does not exist in the role"),
        ([{"dest": "/etc/plain", "src": "none"}], "files/none does not exist in the role"),
        ([{"dest": "/srv", "src": "none/"}], "/srv: files/none/"),
        ([{"dest": "/srv", "src": "boards/"}, {"dest": "/srv/a.json", "content": ""}], "/srv/a.json is listed twice"),
        ([{"dest": "/etc/plain"}, {"dest": "/etc/plain"}], "/etc/plain is listed twice"),
        ([{"dest": "/etc/plain", "mod": "0600"}], "/etc/plain: mod is not a known key"),
        ([{"src": "a.j2"}], "dest: None is not an absolute path"),
        ([{"dest": "etc/plain"}], "dest: 'etc/plain' is not an absolute path"),
        ([{"dest": "/etc/plain", "src": "a.j2", "content": ""}], "src and content cannot be combined"),
        ([{"dest": "/bin/t", "program": ["t.py"], "content": ""}], "content and program cannot be combined"),
        ([{"dest": "/bin/t", "program": ["none.py"]}], "/bin/t: files/none.py"),
        ([{"dest": "/bin/t", "program": ["broken.py"]}], "module_utils/gone.py"),
        ([{"dest": "/etc/plain", "state": "gone"}], "state: 'gone' is not valid"),
        ([{"dest": "/etc/plain", "when": "perhaps"}], "when: 'perhaps' must be true or false"),
    ],
)
def test_error_names_task_and_key(role: Path, files: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(AnsibleError) as error:
        run(role, *files)
    assert str(error.value).startswith("task 'example | Write the files': ")
    assert words in str(error.value)


def test_two_entries_for_one_file_need_conditions() -> None:
    one, other = ({"dest": "/etc/a", "when": wanted, "content": str(wanted)} for wanted in (True, False))
    assert checked([one, other]) == [one]
    with pytest.raises(ValueError, match="/etc/a is listed twice"):
        checked([one], [{"path": "/etc/a", "content": ""}])


def test_template_takes_precedence_over_a_file() -> None:
    assert sources({"dest": "/etc/a"}) == [("templates", "etc/a.j2"), ("files", "etc/a")]
