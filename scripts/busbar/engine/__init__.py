"""The validation as a library, without Ansible and inventories.

The caller chooses the tests and nodes (`options`, `job_script`) and a `Transport`. `Transport.report_progress` receives
an event for each step, and `run_validation` writes the report into a folder and returns the verdict. `busbar prove`
uses `LocalTransport`, which runs steps in a Slurm job of this user. `read_output` and `judge` process existing outputs.
"""

from __future__ import annotations

from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.builtin_profiles import (
    profile_names,
    shipped_profile,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.merged_profiles import site_catalogue
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.nccl.parse_output import parse_text as read_output
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.history import compare, side_by_side
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.check_options import (
    all_problems as option_problems,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.cluster_access import (
    Interrupted,
    Output,
    Transport,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.nccl_judge import (
    FAIL,
    INCONCLUSIVE,
    PASS,
    Expected,
    judge,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.interruption import Interruption
from ansible_collections.busbar.cluster.plugins.plugin_utils.report_files import read_report
from ansible_collections.busbar.cluster.plugins.plugin_utils.validation_run import ClusterTransport, run_validation

from busbar.prove.options import job_script
from busbar.prove.options import validation_options as options
from busbar.prove.transport import LocalTransport

__all__ = [
    "FAIL",
    "INCONCLUSIVE",
    "PASS",
    "ClusterTransport",
    "Expected",
    "Interrupted",
    "Interruption",
    "LocalTransport",
    "Output",
    "Transport",
    "compare",
    "job_script",
    "judge",
    "option_problems",
    "options",
    "profile_names",
    "read_output",
    "read_report",
    "run_validation",
    "shipped_profile",
    "side_by_side",
    "site_catalogue",
]
