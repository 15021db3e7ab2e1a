"""Our families of the host, and of what each user takes of it. Labels are named as node-exporter's are, so that both can be joined."""
from gpufairy.core.host_reading import DiskReading, HostReading, MountReading, Pressure
from gpufairy.node.render_text import Family, Text, counter, gauge, labelled

READINGS: dict[str, Family] = {  # by the field of HostReading
    "cpus": gauge("fairy_host_cpus", "CPUs of the host."),
    "cpu_used": gauge("fairy_host_cpu_used_ratio", "Part of all CPUs' time that was used."),
    "load_1m": gauge("fairy_host_load1", "Processes that ran or wanted to, over a minute."),
    "memory_total_bytes": gauge("fairy_host_memory_total_bytes", "Memory of the host."),
    "memory_available_bytes": gauge("fairy_host_memory_available_bytes", "Memory that new work could have."),
    "swap_total_bytes": gauge("fairy_host_swap_total_bytes", "Swap space."),
    "swap_used_bytes": gauge("fairy_host_swap_used_bytes", "Swap space in use."),
    "energy_j": counter("fairy_host_energy_joules_total", "Energy that the CPU packages used."),
    "power_w": gauge("fairy_host_power_watts", "Power that the CPU packages draw."),
    "up_s": gauge("fairy_host_uptime_seconds", "Time since the host began."),
}
CORE = gauge("fairy_host_cpu_core_used_ratio", "Part of each CPU's time that was used.")
PRESSURE = gauge("fairy_host_pressure_ratio", "Part of the last ten seconds in which some or all work stood still for want of it.")
DISK_READ = counter("fairy_host_disk_read_bytes_total", "Bytes read from the disk.")
DISK_WRITTEN = counter("fairy_host_disk_written_bytes_total", "Bytes written to the disk.")
DISK_BUSY = counter("fairy_host_disk_busy_seconds_total", "Time in which the disk had work.")
MOUNT_SIZE = gauge("fairy_host_filesystem_size_bytes", "Size of the file system.")
MOUNT_FREE = gauge("fairy_host_filesystem_free_bytes", "Room left in it for users.")
MOUNT_FILES = gauge("fairy_host_filesystem_files", "Files that it can hold.")
MOUNT_FILES_FREE = gauge("fairy_host_filesystem_files_free", "Files that can still be made in it.")
RECEIVED = counter("fairy_host_network_received_bytes_total", "Bytes that the network device received.")
SENT = counter("fairy_host_network_sent_bytes_total", "Bytes that the network device sent.")
TEMPERATURE = gauge("fairy_host_temperature_celsius", "Temperature at the sensor.")
USER_PROCESSES = gauge("fairy_user_processes", "Processes of the user on this host.")
USER_CPUS = gauge("fairy_user_cpus_used", "CPUs that the user's processes use.")
USER_MEMORY = gauge("fairy_user_memory_bytes", "Memory of the host that the user's processes hold.")


def put_host(text: Text, host: HostReading | None) -> None:
    if host is None:
        return
    for field, family in READINGS.items():
        text.put(family, "", getattr(host, field))
    for core, used in enumerate(host.cores):
        text.put(CORE, f'cpu="{core}"', used)
    for resource, pressure in (("cpu", host.cpu_pressure), ("memory", host.memory_pressure), ("io", host.io_pressure)):
        put_pressure(text, resource, pressure)
    for disk in host.disks:
        put_disk(text, disk)
    for mount in host.mounts:
        put_mount(text, mount)
    for network in host.networks:
        labels = labelled(device=network.device)
        text.put(RECEIVED, labels, network.received_bytes)
        text.put(SENT, labels, network.sent_bytes)
    for sensor, temperature_c in host.temperatures_c:
        text.put(TEMPERATURE, labelled(sensor=sensor), temperature_c)
    put_users(text, host)


def put_pressure(text: Text, resource: str, pressure: Pressure) -> None:
    text.put(PRESSURE, f'resource="{resource}",waiting="some"', pressure.some)
    text.put(PRESSURE, f'resource="{resource}",waiting="all"', pressure.full)


def put_disk(text: Text, disk: DiskReading) -> None:
    labels = labelled(device=disk.device)
    text.put(DISK_READ, labels, disk.read_bytes)
    text.put(DISK_WRITTEN, labels, disk.written_bytes)
    text.put(DISK_BUSY, labels, disk.busy_s)


def put_mount(text: Text, mount: MountReading) -> None:
    labels = labelled(device=mount.device, mountpoint=mount.path, fstype=mount.kind)
    text.put(MOUNT_SIZE, labels, mount.total_bytes)
    text.put(MOUNT_FREE, labels, mount.free_bytes)
    text.put(MOUNT_FILES, labels, mount.inodes)
    text.put(MOUNT_FILES_FREE, labels, mount.inodes_free)


def put_users(text: Text, host: HostReading) -> None:
    for user in host.users:
        labels = labelled(user=user.user)
        text.put(USER_PROCESSES, labels, user.processes)
        text.put(USER_CPUS, labels, user.cpus)
        text.put(USER_MEMORY, labels, user.memory_bytes)
