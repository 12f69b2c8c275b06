"""Each registered stage has its choice, options and job in the role validation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation import validation_types
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.stage_registry import STAGES, choices

ROLE = Path(__file__).parents[3] / "roles/validation"
VARS: dict[str, Any] = yaml.safe_load((ROLE / "vars/main.yml").read_text())
SPECS: dict[str, Any] = yaml.safe_load((ROLE / "meta/argument_specs.yml").read_text())["argument_specs"]["main"][
    "options"
]
WITH_JOB = [stage for stage in STAGES if stage.form is not None]
# Types of a role's options and the types that the stage reads.
TYPES = {"bool": "bool", "int": "int", "float": "float", "str": "str", "path": "str", "list": "list"}


def test_choices_of_validation_stages_match_the_registry() -> None:
    assert SPECS["validation_stages"]["choices"] == list(choices())


def test_names_of_stages_are_unique() -> None:
    names = [name for stage in STAGES for name in {stage.name, *stage.labels}]
    assert len(names) == len(set(names))
    # The options of a stage are keys beside those of all stages, and its figures are keys of a test.
    assert not {stage.name for stage in WITH_JOB} & {
        *validation_types.Options.__annotations__,
        *validation_types.Test.__annotations__,
    }


@pytest.mark.parametrize("stage", WITH_JOB, ids=lambda stage: stage.name)
def test_stage_reads_all_its_options_and_no_others(stage: Any) -> None:  # noqa: ANN401 - any options
    prefix = f"validation_{stage.name}_"
    declared = {name.removeprefix(prefix): option for name, option in SPECS.items() if name.startswith(prefix)}
    read = {key: str(hint) for key, hint in stage.form.__annotations__.items() if key != "script"}
    tuned = {name.removeprefix(f"__{prefix}") for name in VARS if name.startswith(f"__{prefix}")}
    assert declared.keys() | tuned == read.keys()
    for key, option in declared.items():
        assert TYPES[option["type"]] in read[key], f"{prefix}{key}"


@pytest.mark.parametrize("stage", WITH_JOB, ids=lambda stage: stage.name)
def test_stage_with_options_has_a_job(stage: Any) -> None:  # noqa: ANN401 - any options
    assert (ROLE / "templates" / f"job_{stage.name}.sh.j2").is_file()


def test_every_job_belongs_to_a_stage() -> None:
    jobs = {path.name.removeprefix("job_").removesuffix(".sh.j2") for path in (ROLE / "templates").glob("job_*.sh.j2")}
    assert jobs == {stage.name for stage in WITH_JOB}
