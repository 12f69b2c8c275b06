"""The troubleshooting page quotes busbar's messages exactly and covers all messages of other programs in checks."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.hardware import gpu_count_check, nvidia_smi
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.slurm_drain_reasons import DRAIN_REASONS
from ansible_collections.busbar.cluster.plugins.module_utils.storage import mount_faults

TOP = Path(__file__).resolve().parents[3]
PAGE = TOP / "docs" / "troubleshooting.md"
FOLDERS = ("plugins", "roles", "playbooks", "scripts")
LEAST = 6
# Sections about messages of other programs; the other sections quote messages of busbar.
OTHERS = (
    *("Slurm: why a node is drained or down", "Slurm: daemons", "Slurm: jobs", "munge", "NVIDIA driver and CUDA"),
    *("DCGM", "NCCL", "Enroot and Pyxis", "NFS"),
)
# Messages that admins search for, from public threads.
ASKED = (
    *("gres/gpu count reported lower than configured", "Low RealMemory", "can't stat gres.conf file"),
    *("Unable to contact slurm controller", "Zero Bytes were transmitted or received", "Invalid node state specified"),
    *("Kill task failed", "Requested node configuration is not available", "oom_kill event", "Invalid job credential"),
    *("Munge decode failed: Invalid credential", "Expired credential", "Keyfile is insecure", "munge.socket.2"),
    *("failed to create user namespace", "failed to import docker image", "401 Unauthorized", "--container-image"),
    *("Driver/library version mismatch", "system not yet initialized", "Unable to determine the device handle"),
    *(
        "fallen off the bus",
        "RmInitAdapter failed",
        "No devices were found",
        "Failed to initialize NVML: Unknown Error",
    ),
    *("Unable to connect to host engine", "ibv_modify_qp", "status=12", "error 12", "unhandled system error"),
    *("port error", "ibv_reg_mr", "no socket interface found", "shared memory segment", "NVLink SHARP"),
    *("access denied by server", "Stale file handle", "not responding, still trying", "innodb_buffer_pool_size"),
)


def sections() -> dict[str, list[str]]:
    """Return the headings of messages by section."""
    parts = re.split(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {
        name: re.findall(r"^### (.+)$", text, re.MULTILINE) for name, text in zip(parts[::2], parts[1::2], strict=True)
    }


def quoted() -> list[str]:
    """Return the messages of busbar that are headings."""
    return [heading.strip("`") for name, headings in sections().items() if name not in OTHERS for heading in headings]


def foreign() -> str:
    """Return the headings about messages of other programs."""
    return "\n".join(heading for name in OTHERS for heading in sections()[name]).lower()


@cache
def messages() -> str:
    """Return all texts of the code, each in one line."""
    texts = []
    for path in (path for folder in FOLDERS for path in (TOP / folder).rglob("*") if path.is_file()):
        if path.suffix == ".py":
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    texts.append(node.value)
                elif isinstance(node, ast.JoinedStr):
                    texts.append("".join(str(v.value) if isinstance(v, ast.Constant) else "…" for v in node.values))
        elif path.suffix in {".yml", ".j2", ".sh", ""} and "README" not in path.name:
            texts.append(path.read_text(encoding="utf-8", errors="replace"))
    return "\n".join(" ".join(text.split()) for text in texts)


def test_subheadings_are_messages() -> None:
    headings = [heading for each in sections().values() for heading in each]
    assert [heading for heading in headings if not re.match(r"`[^`]+`", heading)] == []
    assert len(quoted()) > 20
    assert len(headings) == len(set(headings))


@pytest.mark.parametrize("message", [*ASKED, *(text for each in DRAIN_REASONS for text in each.texts)])
def test_common_message_of_another_program_is_a_heading(message: str) -> None:
    assert message.lower() in foreign()


def test_known_failures_of_checks_are_headings() -> None:
    """Checks of mounts and of nvidia-smi recognize faults by these texts."""
    texts = [text for words, _ in mount_faults.KNOWN_FAILURES for text in words]
    texts += [text for text, _ in gpu_count_check.KNOWN_FAILURES]
    texts += nvidia_smi.KNOWN_FAILURES
    # Messages of busbar itself, and words that are part of many messages.
    own = {
        "did not answer",
        "invalid",
        "bad option",
        "does not exist",
        "not found",
        "timed out",
        "refused",
        "unreachable",
    }
    assert [text for text in texts if text not in own and text.lower() not in foreign()] == []


@pytest.mark.parametrize("message", quoted())
def test_quoted_message_is_in_the_code(message: str) -> None:
    parts = [part.strip() for part in message.split("…") if part.strip()]
    assert any(len(part) >= LEAST for part in parts), "too short to be found again"
    assert [part for part in parts if part not in messages()] == []
