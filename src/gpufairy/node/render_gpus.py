"""Our families of GPUs and MIG instances: what they are, and every reading in base units.

A GPU in MIG mode is here beside its instances: power, heat and clocks are its alone.
"""
from gpufairy.core.node_sample import NodeSample
from gpufairy.core.reading import THROTTLE_WORDS, GpuDevice, GpuReading
from gpufairy.node.render_contract import answering
from gpufairy.node.render_text import Family, Text, counter, gauge, labelled

INFO = gauge("fairy_gpu_info", "What a GPU or MIG instance is; parent is the label of the GPU that an instance was cut from.")
LOST = gauge("fairy_gpu_lost", "1 while a GPU that is there does not answer, 0 while it does.")
MEMORY_TOTAL = gauge("fairy_gpu_memory_total_bytes", "Memory of the GPU or MIG instance.")
THROTTLED = gauge("fairy_gpu_throttled", "1 while the clocks are held down, by reason; 0 while they are not.")
REMAPPED = counter("fairy_gpu_remapped_rows_total", "Rows of memory replaced for good, by cause.")

READINGS: dict[str, Family] = {  # by the field of GpuReading
    "utilisation": gauge("fairy_gpu_utilization_ratio", "Part of the time in which anything ran; of a MIG instance, of its SMs."),
    "memory_used_bytes": gauge("fairy_gpu_memory_used_bytes", "Memory in use."),
    "memory_utilisation": gauge("fairy_gpu_memory_utilization_ratio", "Part of the time in which memory was read or written."),
    "sm_active": gauge("fairy_gpu_sm_active_ratio", "Part of the time in which an SM had work, over all SMs."),
    "sm_occupancy": gauge("fairy_gpu_sm_occupancy_ratio", "Part of the warps that SMs could hold which were there."),
    "tensor_active": gauge("fairy_gpu_tensor_active_ratio", "Part of the time in which tensor cores had work."),
    "dram_active": gauge("fairy_gpu_dram_active_ratio", "Part of the memory's speed that was used."),
    "power_w": gauge("fairy_gpu_power_watts", "Power drawn."),
    "power_limit_w": gauge("fairy_gpu_power_limit_watts", "Power that the GPU may draw."),
    "energy_j": counter("fairy_gpu_energy_joules_total", "Energy used since the driver was loaded."),
    "temperature_c": gauge("fairy_gpu_temperature_celsius", "Temperature of the GPU."),
    "memory_temperature_c": gauge("fairy_gpu_memory_temperature_celsius", "Temperature of its memory."),
    "slowdown_c": gauge("fairy_gpu_slowdown_temperature_celsius", "Temperature from which on the GPU slows down to save itself."),
    "fan": gauge("fairy_gpu_fan_ratio", "Speed of the fan, of its highest."),
    "sm_clock_hz": gauge("fairy_gpu_sm_clock_hertz", "Clock of the SMs."),
    "memory_clock_hz": gauge("fairy_gpu_memory_clock_hertz", "Clock of the memory."),
    "ecc_corrected": counter("fairy_gpu_ecc_corrected_errors_total", "Memory errors corrected since the driver was loaded."),
    "ecc_uncorrected": counter("fairy_gpu_ecc_uncorrected_errors_total", "Memory errors beyond correction since then."),
    "remap_pending": gauge("fairy_gpu_remap_pending", "1 while a reset of the GPU would replace a row of memory."),
    "remap_failed": gauge("fairy_gpu_remap_failed", "1 where no spare rows of memory are left: the card should go back to its maker."),
    "pcie_sent_bytes": counter("fairy_gpu_pcie_sent_bytes_total", "Bytes that the GPU sent by PCIe."),
    "pcie_received_bytes": counter("fairy_gpu_pcie_received_bytes_total", "Bytes that the GPU received by PCIe."),
}


def put_gpus(text: Text, sample: NodeSample) -> None:
    """Of GPUs that are lost there is only that: none of their other series."""
    for lost in sample.lost:
        text.put(LOST, f'gpu="{lost.index}"', 1)
    if not sample.gpus_known:
        return
    there = answering(sample)
    for one in there:
        text.put(INFO, info_labels(one, sample), 1)
        if one.parent is None:
            text.put(LOST, f'gpu="{one.label}"', 0)
    read = {reading.uuid: reading for reading in sample.readings}
    for one in there:
        put_reading(text, one, read.get(one.uuid))


def info_labels(device: GpuDevice, sample: NodeSample) -> str:
    return labelled(
        gpu=device.label,
        uuid=device.uuid,
        kind=device.kind,
        name=device.name,
        bus=device.bus,
        parent="" if device.parent is None else str(device.index),
        profile=device.profile or "",
        mig="true" if device.mig else "false",
        simulated="true" if device.simulated else "false",
        driver=sample.driver or "",
        cuda=sample.driver_cuda or "",
    )


def put_reading(text: Text, device: GpuDevice, reading: GpuReading | None) -> None:
    labels = f'gpu="{device.label}"'
    if reading is None:
        text.put(MEMORY_TOTAL, labels, device.memory_bytes)
        return
    text.put(MEMORY_TOTAL, labels, device.memory_bytes if reading.memory_total_bytes is None else reading.memory_total_bytes)
    for field, family in READINGS.items():
        text.put(family, labels, getattr(reading, field))
    text.put(REMAPPED, f'{labels},cause="corrected"', reading.remapped_corrected)
    text.put(REMAPPED, f'{labels},cause="uncorrected"', reading.remapped_uncorrected)
    if reading.throttled_by is not None:
        for word in THROTTLE_WORDS:
            text.put(THROTTLED, f'{labels},reason="{word.replace(" ", "_")}"', word in reading.throttled_by)
