"""Tests of the AWX playbook: module arguments match the awx.awx modules, surveys match the options of playbooks."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from packaging.requirements import Requirement

TOP = Path(__file__).resolve().parents[2]
FOLDER = TOP / "playbooks/awx"
GIVEN = {
    "awx_busbar_url": "https://git.example.org/busbar.git",
    "awx_busbar_commit": "0123456789abcdef0123456789abcdef01234567",
    "awx_site_url": "https://git.example.org/site.git",
    "awx_image": "images.example.org/busbar-ee:1",
    "awx_machine_credential": "busbar nodes",
    "awx_volume_claim": "busbar-site",
}
# Question types that AWX accepts: awx/api/views/__init__.py, JobTemplateSurveySpec.
QUESTIONS = {"text", "textarea", "password", "integer", "float", "multiplechoice", "multiselect"}


def loaded(name: str) -> Any:  # noqa: ANN401
    return yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))


PLAY = loaded("define.yml")[0]
TEMPLATES = loaded("vars/job_templates.yml")["awx_job_templates"]
MODULES = sorted({word for task in PLAY["tasks"] for word in task if word.startswith("awx.awx.")})


@pytest.fixture(scope="module")
def documented() -> dict[str, Any]:
    """Return the documented arguments of the collection's modules."""
    said = subprocess.run(
        [f"{Path(sys.executable).parent}/ansible-doc", "-j", *MODULES], capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(said.stdout)
    if not found:
        pytest.skip("the installed bundle of Ansible does not have awx.awx")
    return found


def spec(options: dict[str, Any]) -> dict[str, Any]:
    """Return the argument spec of a module's documented options."""
    kept = ("type", "elements", "choices", "required", "aliases")
    return {name: {key: option[key] for key in kept if key in option} for name, option in options.items()}


def rendered() -> list[tuple[str, dict[str, Any]]]:
    """Return each module call with its templated arguments."""
    variables = {**loaded("vars/main.yml"), **loaded("vars/job_templates.yml"), **GIVEN, "omit": "__omitted__"}
    calls = []
    for task in PLAY["tasks"]:
        module = next((word for word in task if word.startswith("awx.awx.")), None)
        if module is None:
            continue
        own = Templar(loader=DataLoader(), variables=trusted(variables))
        for item in own.template(trusted(task["loop"])) if "loop" in task else [None]:
            words = Templar(loader=DataLoader(), variables=trusted(variables | {"item": item}))
            found = words.template(trusted(task[module]))
            calls.append((module, {key: value for key, value in found.items() if value != "__omitted__"}))
    return calls


def trusted(value: Any) -> Any:  # noqa: ANN401
    """Return the value with its strings marked as trusted templates."""
    if isinstance(value, dict):
        return {key: trusted(each) for key, each in value.items()}
    if isinstance(value, list):
        return [trusted(each) for each in value]
    return trust_as_template(value) if isinstance(value, str) else value


def problems(module: str, arguments: dict[str, Any], documented: dict[str, Any]) -> list[str]:
    found = ArgumentSpecValidator(spec(documented[module]["doc"]["options"])).validate(arguments)
    return list(found.error_messages)


def test_every_argument_is_accepted_by_its_module(documented: dict[str, Any]) -> None:
    calls = rendered()
    assert len(calls) == 7 + len(TEMPLATES) + 1
    wrong = {
        f"{module} {call.get('name')}": said for module, call in calls if (said := problems(module, call, documented))
    }
    assert wrong == {}


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template["name"])
def test_every_template_runs_a_playbook_and_asks_for_options_that_it_reads(template: dict[str, Any]) -> None:
    path = TOP / "playbooks" / f"{template['playbook']}.yml"
    texts = [path, *(TOP / "playbooks/vars").glob("*.yml"), *(TOP / "roles").glob("*/meta/argument_specs.yml")]
    known = "\n".join(each.read_text(encoding="utf-8") for each in texts)
    for question in template.get("survey", {}).get("spec", []):
        assert question.keys() >= {"question_name", "question_description", "type", "variable", "required", "default"}
        assert question["type"] in QUESTIONS
        assert re.search(rf"\b{question['variable']}\b", known), f"no playbook reads {question['variable']}"
        if question["type"].startswith("multi"):
            assert question["default"] in question["choices"]


def test_jobs_that_change_the_cluster_do_not_run_concurrently() -> None:
    calls = rendered()
    groups = [call for module, call in calls if module == "awx.awx.instance_group"]
    assert [group["max_concurrent_jobs"] for group in groups] == [1]
    templates = [call for module, call in calls if module == "awx.awx.job_template"]
    assert {tuple(call["instance_groups"]) for call in templates} == {(groups[0]["name"],)}
    assert {call["job_slice_count"] for call in templates} == {1}


def test_pod_requests_cpu_and_memory_for_its_forks() -> None:
    pod = next(json.loads(call["pod_spec_override"]) for module, call in rendered() if "pod_spec_override" in call)
    container = pod["spec"]["containers"][0]
    assert container["resources"]["requests"] == {"cpu": "12500m", "memory": "5000M"}
    claims = {volume["name"]: volume["persistentVolumeClaim"]["claimName"] for volume in pod["spec"]["volumes"]}
    assert claims[container["volumeMounts"][0]["name"]] == "busbar-site"
    # cluster_dir contains the files that a run creates once.
    inventory = next(call for module, call in rendered() if module == "awx.awx.inventory")
    assert inventory["variables"] == {"cluster_dir": container["volumeMounts"][0]["mountPath"]}


def test_required_variables_are_checked() -> None:
    main = loaded("vars/main.yml")
    assert set(main["awx_required"]) == set(main["awx_given"]) == set(GIVEN)


def test_image_contains_the_tested_versions_of_dependencies() -> None:
    image = loaded("execution-environment.yml")["dependencies"]
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["ansible"]]
    wanted = {Requirement(text).name: text for text in asked if "python_version < '3.11'" not in text}
    text = (TOP / "requirements.txt").read_text()
    locked = dict(
        re.findall(
            r"^([\w.-]+)==([\w.]+) ; python_full_version < '3.12'", (TOP / "requirements.txt").read_text(), re.MULTILINE
        )
    )
    runner = re.search(r"^ansible-runner==[\w.]+", text, re.MULTILINE)
    assert runner is not None
    assert image["ansible_core"]["package_pip"] == f"ansible-core=={locked['ansible-core']}"
    assert image["ansible_runner"]["package_pip"] == runner[0]
    assert f"ansible=={locked['ansible']}" in image["python"]
    rest = {
        text
        for name, text in wanted.items()
        if name not in {"ansible", "ansible-core", "ansible-runner", "argcomplete"}
    }
    assert rest == {text for text in image["python"] if not text.startswith("ansible==")}
