"""Generates the recording that the simulated `nvidia-smi -q -x` of a sandbox node replays."""

from __future__ import annotations

from typing import NamedTuple

from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.mig_layouts import mig_geometry

MODEL = "Simulated GPU"
MEMORY_MIB = 1024
CLOCKS = {1215: (210, 705, 1050, 1410), 405: (210,)}
# Simulated GPUs are not on a bus; real machines do not use this PCI domain.
DOMAIN = "0000FFFF"


class Card(NamedTuple):
    """A model of simulated GPUs; it supports the MIG profiles of the real model."""

    model: str = MODEL
    memory_mib: int = MEMORY_MIB


def gpu_recording(node: str, gpus: int, card: Card = Card()) -> str:  # noqa: B008 - a tuple is immutable
    """Return the recording of a node with healthy simulated GPUs, in the format of nvidia-smi (DTD 13)."""
    return (
        '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">\n<nvidia_smi_log>\n'
        f"\t<driver_version>0.0-simulated</driver_version>\n\t<attached_gpus>{gpus}</attached_gpus>\n"
        + "".join(_gpu(node, index, card) for index in range(gpus))
        + "</nvidia_smi_log>\n"
    )


def _mig(card: Card) -> str:
    """Return the MIG limits of the model, which real logs do not contain, for the simulated nvidia-smi."""
    geometry = mig_geometry(card.model, card.memory_mib)
    if geometry is None:
        return ""
    profiles = "".join(
        f'<profile name="{name}" id="{number}" size="{profile.size}" starts="{",".join(map(str, profile.starts))}"/>'
        for number, (name, profile) in enumerate(geometry.profiles.items())
    )
    return f"\t\t<simulated_mig>{profiles}</simulated_mig>\n"


def _supported_clocks() -> str:
    rows = (
        f"<supported_mem_clock><value>{memory} MHz</value>"
        + "".join(f"<supported_graphics_clock>{each} MHz</supported_graphics_clock>" for each in reversed(graphics))
        + "</supported_mem_clock>"
        for memory, graphics in CLOCKS.items()
    )
    return f"\t\t<supported_clocks>{''.join(rows)}</supported_clocks>\n"


def _gpu(node: str, index: int, card: Card) -> str:
    bus = f"{DOMAIN}:{index + 1:02X}:00.0"
    mig = "N/A" if mig_geometry(card.model, card.memory_mib) is None else "Disabled"
    clocks = "<graphics_clock>1410 MHz</graphics_clock><mem_clock>1215 MHz</mem_clock>"
    return f"""\t<gpu id="{bus}">
\t\t<product_name>{card.model}</product_name>
\t\t<persistence_mode>Enabled</persistence_mode>
\t\t<mig_mode><current_mig>{mig}</current_mig><pending_mig>{mig}</pending_mig></mig_mode>
\t\t<mig_devices>None</mig_devices>
\t\t<serial>simulated-{node}-{index}</serial>
\t\t<uuid>GPU-simulated-{node}-{index}</uuid>
\t\t<minor_number>{index}</minor_number>
\t\t<pci>
\t\t\t<pci_bus_id>{bus}</pci_bus_id>
\t\t\t<pci_gpu_link_info>
\t\t\t\t<pcie_gen><max_link_gen>N/A</max_link_gen><current_link_gen>N/A</current_link_gen></pcie_gen>
\t\t\t\t<link_widths><max_link_width>N/A</max_link_width><current_link_width>N/A</current_link_width></link_widths>
\t\t\t</pci_gpu_link_info>
\t\t</pci>
\t\t<performance_state>P0</performance_state>
\t\t<fb_memory_usage><total>{card.memory_mib} MiB</total><used>0 MiB</used></fb_memory_usage>
\t\t<ecc_mode><current_ecc>Enabled</current_ecc><pending_ecc>Enabled</pending_ecc></ecc_mode>
\t\t<ecc_errors>
\t\t\t<volatile><dram_uncorrectable>0</dram_uncorrectable></volatile>
\t\t\t<aggregate><dram_uncorrectable>0</dram_uncorrectable></aggregate>
\t\t</ecc_errors>
\t\t<compute_mode>Default</compute_mode>
\t\t<gpu_power_readings>
\t\t\t<current_power_limit>400.00 W</current_power_limit>
\t\t\t<default_power_limit>400.00 W</default_power_limit>
\t\t\t<min_power_limit>100.00 W</min_power_limit>
\t\t\t<max_power_limit>500.00 W</max_power_limit>
\t\t</gpu_power_readings>
\t\t<applications_clocks>{clocks}</applications_clocks>
\t\t<default_applications_clocks>{clocks}</default_applications_clocks>
{_supported_clocks()}{_mig(card)}\t\t<fabric><state>N/A</state><status>N/A</status></fabric>
\t</gpu>
"""
