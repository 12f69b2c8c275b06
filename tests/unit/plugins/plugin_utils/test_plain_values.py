"""Values without templates: common lists and mappings, the same as Ansible would work out."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.busbar.cluster.plugins.plugin_utils.plain_values import NotPlainError, plain, settled


class Seen:
    """A test of Jinja that keeps what it was given."""

    value: Any = None

    def __call__(self, value: object) -> bool:
        """Keep the value."""
        self.value = value
        return True


def as_filters_get_it(value: object) -> Any:  # noqa: ANN401
    """A variable as Ansible hands it to a plugin."""
    seen = Seen()
    templar = Templar(DataLoader(), variables={"given": value, "site": "lab", "seen": seen})
    templar.template(trust_as_template("{{ seen(given) }}"))
    return seen.value


def test_a_list_of_ansible_becomes_a_common_one() -> None:
    value = [{"name": "gpu1", "names": ["a", trust_as_template("b")], "port": 1, "up": True, "none": None}]
    given = as_filters_get_it(value)
    assert type(given) is not list
    found = settled(given)
    assert type(found) is list
    assert type(found[0]) is dict
    assert found == value


def test_with_a_template_it_is_worked_out_as_before() -> None:
    given = as_filters_get_it({"where": trust_as_template("{{ site }}"), "other": 1})
    found = settled(given)
    assert found is given
    assert found["where"] == "lab"


@pytest.mark.parametrize("value", ["text", 1, [1], {"a": 1}, None, ("a",)])
def test_a_common_value_is_handed_on(value: object) -> None:
    assert settled(value) is value


@pytest.mark.parametrize("value", ["{{ a }}", "#jinja2: x", "{% if a %}", object(), ["{# #}"], {"a": ("b",)}])
def test_what_may_be_a_template_is_left_to_ansible(value: object) -> None:
    with pytest.raises(NotPlainError):
        plain(value)
