"""Names, units and meaning of the metrics in a CardSample."""

from __future__ import annotations

METRICS: dict[str, tuple[str, str]] = {
    # name: (unit, meaning)
    "utilization": ("%", "share of the driver's window in which some kernel was resident"),
    "memory_utilization": ("%", "share of the window in which device memory was read or written"),
    "memory_used": ("B", "memory in use on the card, all processes"),
    "memory_total": ("B", "memory of the card"),
    "power": ("W", "power draw"),
    "power_limit": ("W", "enforced power limit"),
    "energy": ("J", "energy since the driver was loaded"),
    "temperature": ("°C", "temperature of the chip"),
    "sm_clock": ("MHz", "clock of the multiprocessors"),
    "sm_clock_max": ("MHz", "highest clock of the multiprocessors"),
    "memory_clock": ("MHz", "memory clock"),
    "memory_clock_max": ("MHz", "highest memory clock"),
    "fan": ("%", "fan speed"),
    "pcie_tx": ("B/s", "bytes sent over PCIe"),
    "pcie_rx": ("B/s", "bytes received over PCIe"),
    "ecc_errors": ("", "uncorrected ECC errors since the driver was loaded"),
    "sm_activity": ("%", "share of multiprocessor cycles with a warp resident (GPM)"),
    "tensor_activity": ("%", "share of cycles with the tensor cores busy (GPM)"),
    "dram_activity": ("%", "share of cycles with device memory busy (GPM)"),
    "sm_occupancy": ("%", "resident warps against the most there can be (GPM)"),
    "utilization_window": ("ms", "length of the driver's window for utilization"),
    "throttle": ("", "clock event reasons as NVML's bit mask, see events/throttle.py"),
    "temperature_slowdown": ("°C", "temperature at which the hardware slows the chip down"),
    "energy_estimated": ("J", "power integrated since the sampler began, where no counter is"),
    "other_processes": ("", "processes on the card that are not of this run"),
    "other_utilization": ("%", "share of the window in which those used the multiprocessors"),
    "other_memory": ("B", "memory that those hold on the card"),
}
