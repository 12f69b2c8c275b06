"""What the simulated `nvidia-smi -q -x` of a sandbox node replays: a recording of our own make."""

from __future__ import annotations

__all__ = ["MODEL", "gpu_recording"]

MODEL = "Simulated GPU"
MEMORY_MIB = 1024
# A simulated GPU is on no bus; the domain is one that no real machine has.
DOMAIN = "0000FFFF"


def gpu_recording(node: str, gpus: int) -> str:
    """The log of a node with so many sound simulated GPUs, in the form of the real program (DTD 13)."""
    return (
        '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">\n<nvidia_smi_log>\n'
        f"\t<driver_version>0.0-simulated</driver_version>\n\t<attached_gpus>{gpus}</attached_gpus>\n"
        + "".join(_gpu(node, index) for index in range(gpus))
        + "</nvidia_smi_log>\n"
    )


def _gpu(node: str, index: int) -> str:
    bus = f"{DOMAIN}:{index + 1:02X}:00.0"
    return f"""\t<gpu id="{bus}">
\t\t<product_name>{MODEL}</product_name>
\t\t<persistence_mode>Enabled</persistence_mode>
\t\t<mig_mode><current_mig>N/A</current_mig><pending_mig>N/A</pending_mig></mig_mode>
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
\t\t<fb_memory_usage><total>{MEMORY_MIB} MiB</total><used>0 MiB</used></fb_memory_usage>
\t\t<ecc_mode><current_ecc>Enabled</current_ecc><pending_ecc>Enabled</pending_ecc></ecc_mode>
\t\t<ecc_errors>
\t\t\t<volatile><dram_uncorrectable>0</dram_uncorrectable></volatile>
\t\t\t<aggregate><dram_uncorrectable>0</dram_uncorrectable></aggregate>
\t\t</ecc_errors>
\t\t<fabric><state>N/A</state><status>N/A</status></fabric>
\t</gpu>
"""
