"""Every check of the doctor, in the order in which it is told: name, what it looks at, why that matters, and who judges."""
from collections.abc import Iterable

from gpufairy.core import doctor_containers, doctor_gpus, doctor_host, doctor_kube, doctor_watch
from gpufairy.core.doctor import Check, Finding, finding
from gpufairy.core.doctor_facts import Facts
from gpufairy.core.errors import NoSuchThing
from gpufairy.core.names import nearest

CHECKS = {
    check.name: check
    for check in (
        Check("python", "Python", "gpufairy needs Python 3.11 to 3.14.", doctor_host.python),
        Check("server", "The server", "Nearly every command speaks to it.", doctor_host.server),
        Check("data-folder", "Data folder", "It holds users' homes, keys and the database.", doctor_host.data_folder),
        Check("secrets", "Keys and tokens", "Whoever can read them is somebody else here.", doctor_host.secrets),
        Check("database", "Database", "It knows who holds what; damage spreads if it is not seen.", doctor_host.database),
        Check("backup", "Backup", "Disks die, and people delete the wrong thing.", doctor_host.backup),
        Check("disk", "Disk space", "A full disk ends sessions, and nothing can be written down.", doctor_host.disk),
        Check("inodes", "Inodes", "Without them no file can be made, however much space is left.", doctor_host.inodes),
        Check("disk-quota", "Disk quota", "Without it one user can fill the disk of all.", doctor_host.disk_quota),
        Check("clock", "Clock", "Sign-ins, limits of time and the ledger go by it.", doctor_host.clock),
        Check("dns", "Names", "Links and sessions lead to the server by its name.", doctor_host.dns),
        Check("port-http", "Port of page and API", "Without it nobody reaches the server.", doctor_host.http_port),
        Check("port-ssh", "Port of SSH", "Without it nobody comes into a session by ssh.", doctor_host.ssh_port),
        Check("ssh-keys", "SSH host keys", "Clients remember them, and warn when they change.", doctor_host.ssh_keys),
        Check("driver", "NVIDIA driver", "Old ones lack fixes, and images of today do not run on them.", doctor_gpus.driver),
        Check("nvml", "NVML", "All that is known of GPUs comes from it.", doctor_gpus.nvml),
        Check("kernel-module", "Kernel module", "Without it no program can use a GPU.", doctor_gpus.kernel_module),
        Check("nouveau", "nouveau", "It and NVIDIA's driver cannot have the same GPU.", doctor_gpus.nouveau),
        Check(
            "persistence",
            "Persistence mode",
            "Without it the driver is loaded anew for each program, which takes seconds.",
            doctor_gpus.persistence,
        ),
        Check("mig", "MIG", "A mode that waits for a reset is not in force.", doctor_gpus.mig),
        Check("mps", "MPS", "Fractions of GPUs are held to their part by it.", doctor_gpus.mps),
        Check("share-library", "Share library", "It shows sessions their share, and holds them to its memory.", doctor_host.share_library),
        Check("engine", "Docker or Podman", "Sessions in containers are kept apart; plain processes are not.", doctor_containers.engine),
        Check("live-restore", "Docker's live-restore", "Docker is restarted by each of its updates.", doctor_containers.live_restore),
        Check(
            "cgroup-driver",
            "Docker's cgroup driver",
            "Sessions that lose their GPU fail with `Unknown Error`.",
            doctor_containers.cgroup_driver,
        ),
        Check("cgroups", "cgroups", "Limits of CPU, memory and processes are held by them.", doctor_containers.cgroups),
        Check("runc", "runc", "It stands between a container and the host.", doctor_containers.runc),
        Check(
            "toolkit",
            "NVIDIA's container toolkit",
            "It brings GPUs into containers, and has been a way out of them.",
            doctor_containers.toolkit,
        ),
        Check("cdi", "CDI files", "A GPU or instance that they do not name is given to no container.", doctor_containers.cdi),
        Check("nft", "nftables", "Sessions are kept from the host and each other by it.", doctor_containers.nft),
        Check("prometheus", "Prometheus", "Long history, dashboards and its alerts come from there.", doctor_watch.prometheus),
        Check("textfile", "Textfile folder", "node-exporter serves what lies there.", doctor_watch.textfile),
        Check("no-metrics", "No metrics", "Each step from GPU to Prometheus, in turn.", doctor_watch.no_metrics),
        Check("wrong-pids", "Wrong PIDs", "Whose a process is follows from its PID.", doctor_watch.wrong_pids),
        Check("mig-not-seen", "MIG not seen", "Each step from MIG mode to a session, in turn.", doctor_watch.mig_not_seen),
        Check("kubernetes", "Kubernetes", "Sessions are pods there.", doctor_kube.kubernetes),
        Check(
            "kubernetes-rights",
            "Rights in Kubernetes",
            "A verb that is missing fails a session in the midst of its life.",
            doctor_kube.rights,
        ),
        Check(
            "pod-security",
            "Pod Security",
            "It refuses pods with more rights than a session has, whoever makes them.",
            doctor_kube.pod_security,
        ),
        Check(
            "storage-class", "Storage class for homes", "Without one no home can be made, and no session starts.", doctor_kube.storage_class
        ),
        Check("device-plugin", "GPUs in Kubernetes", "Pods get only what nodes offer.", doctor_kube.device_plugin),
        Check("dra", "Parts of GPUs by DRA", "Without it sessions on Kubernetes have whole GPUs alone.", doctor_kube.dra),
        Check("agents", "Agents in Kubernetes", "Without one nothing is known of a node's GPUs but their number.", doctor_kube.agents),
    )
}
GUIDES = ("no-metrics", "wrong-pids", "mig-not-seen")  # answers to a complaint, told step by step


def checked_names(asked: Iterable[str]) -> list[str]:
    """Given one after the other, or with commas. Raises NoSuchThing."""
    names = [name.strip() for part in asked for name in part.split(",") if name.strip()]
    for name in names:
        if name not in CHECKS:
            raise NoSuchThing(f"no check is called {name[:40]!r}{nearest(name, CHECKS)}", f"There are: {', '.join(CHECKS)}.")
    return list(dict.fromkeys(names))


def look(facts: Facts, only: Iterable[str] = (), where: str = "") -> list[Finding]:
    """`only`: names of checks; none: all of them."""
    return [finding(CHECKS[name], facts, where) for name in (list(only) or CHECKS)]
