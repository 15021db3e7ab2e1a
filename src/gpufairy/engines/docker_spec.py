"""What a session's container is made of: a pure function of values, from an allow-list. Nothing a user sent is merged in.

The image's own ENTRYPOINT, CMD, USER, WORKDIR and HEALTHCHECK are not used: the porter is the first process of every session, runs as the
session's owner, and begins in their home.
"""
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from gpufairy.core.errors import BadInput
from gpufairy.core.plain import session_from_plain, session_to_plain
from gpufairy.core.session import Session
from gpufairy.core.workload import WorkloadId
from gpufairy.engines.began_file import INSIDE
from gpufairy.engines.docker_env import container_environment
from gpufairy.engines.docker_facts import NO_FACTS, ImageFacts

PORTER = "/opt/fairy/bin/porter"
RELAY = "8420:/run/fairy/server/api.sock"  # sessions reach the server by their own loopback: there is no way to it by the network
ROLE, SESSION, FILES = "gpufairy.role", "session", "files"
MOST_SHM = 64 * 2**30  # bytes; it counts against the memory of the session anyway
OOM_SCORE = 300  # of -1000 to 1000: when the host itself runs out of memory, sessions go before its services
CPU_PERIOD_US = 100_000  # the kernel's own default
MOST_DIGITS = 9  # of an attempt: the label may be anybody's, and a number of thousands of figures is an error of its own

# What apt, pip and conda need when somebody is root inside. No MKNOD, NET_RAW, SYS_CHROOT or SETFCAP, and never SYS_ADMIN.
ROOT_INSIDE = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID")


class Network(StrEnum):
    OPEN = "open"  # out to the world; not to the host, its metadata address or other sessions
    NONE = "none"
    UNGUARDED = "unguarded"  # as OPEN where no firewall can be set: the host's own services can be reached from inside


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of the host that the admin lets sessions mount by its name."""

    path: Path
    writable: bool = False


@dataclass(frozen=True, slots=True)
class DockerSettings:
    default_image: str = "ubuntu:24.04"
    root_images: tuple[str, ...] = ()  # patterns as a shell has them: in these the user is root, inside the container
    pull: bool = True
    network: Network = Network.OPEN
    subnet: str = ""  # of the sessions' bridge, such as 10.99.0.0/16; empty: the daemon picks one
    pids: int = 4096  # processes and threads of one session: a fork bomb ends there
    nofile: int = 65536  # open files of one process: data loaders need many
    memlock: bool = False  # lets sessions lock all their memory, as RDMA needs it
    folders: Mapping[str, Folder] = field(default_factory=dict)

    def root_inside(self, image: str) -> bool:
        return any(fnmatchcase(image, pattern) for pattern in self.root_images)


@dataclass(frozen=True, slots=True)
class Mount:
    source: Path
    target: str
    writable: bool = False

    def plain(self) -> dict[str, Any]:
        """For the create call. Not as one string: a colon in a path would say something; and a source that is missing is not made."""
        return {"Type": "bind", "Source": str(self.source), "Target": self.target, "ReadOnly": not self.writable}


@dataclass(frozen=True, slots=True)
class Gpus:
    """How the granted GPUs come into the container. All empty: none do, or they are simulated."""

    cdi: tuple[str, ...] = ()  # such as nvidia.com/gpu=GPU-…
    nvidia: tuple[str, ...] = ()  # uuids, for Docker's own nvidia device request


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the host has made ready for one container."""

    uid: int
    image: str
    server_id: str
    network: str  # its name, or "none"
    mounts: tuple[Mount, ...]
    facts: ImageFacts = NO_FACTS
    gpus: Gpus = Gpus()
    root: bool = False
    nofile: int = 65536
    nproc: int | None = None  # None: the daemon's own default can be had
    cpus_milli: int = 10**9  # all that the machine has
    has_ipv6: bool = True  # the kernel's


def container_names(session: Session) -> Iterator[str]:
    """The plain one first. Users kim-a and kim may both make a fairy-kim-a-b; and an attempt before this one may still have the name."""
    base = f"fairy-{session.owner}-{session.name}"
    yield base
    yield f"{base}-{session.id[:6]}"
    yield f"{base}-{session.id}-{session.attempt}"


def labels(session: Session, server_id: str, *, root: bool = False) -> dict[str, str]:
    """They are the truth. Values of variables are left out: they may be secret, and are read back from the container's environment."""
    names = tuple((name, "") for name, _ in session.request.env)
    bare = replace(session, request=replace(session.request, env=names))
    return {
        ROLE: SESSION,
        "gpufairy.server": server_id,
        "gpufairy.session": session.id,
        "gpufairy.attempt": str(session.attempt),
        "gpufairy.owner": session.owner,
        "gpufairy.name": session.name,
        "gpufairy.launch": json.dumps(session_to_plain(bare), separators=(",", ":")),
        "gpufairy.root": "1" if root else "0",  # said either way: an image may bring labels of its own
    }


def labelled_id(found: Mapping[str, str]) -> WorkloadId | None:
    session_id, attempt = found.get("gpufairy.session", ""), found.get("gpufairy.attempt", "")
    readable = bool(session_id) and len(attempt) <= MOST_DIGITS and attempt.isascii() and attempt.isdecimal()
    return WorkloadId(session_id, int(attempt)) if readable else None


def labelled_session(found: Mapping[str, str], env: Mapping[str, str]) -> Session | None:
    """None: not readable. What runs there is shown all the same."""
    try:
        session = session_from_plain(json.loads(found["gpufairy.launch"]))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, BadInput):
        return None
    filled = tuple((name, env.get(name, "")) for name, _ in session.request.env)
    return replace(session, request=replace(session.request, env=filled))


def container_spec(session: Session, here: Surroundings, settings: DockerSettings) -> dict[str, Any]:
    """The body of the create call."""
    env = container_environment(session, here.facts, root=here.root, cdi=bool(here.gpus.cdi))
    porter = [PORTER, "--log", "/run/fairy/log", "--workdir", work_folder(session), "--relay", RELAY, "--once", INSIDE]
    return {
        "Image": here.image,
        "Entrypoint": [*porter, "--", *session.request.command] if session.request.command else porter,
        "Cmd": [],
        "User": "0:0" if here.root else f"{here.uid}:{here.uid}",
        "WorkingDir": "/",  # the porter goes into the work folder itself: the daemon would make a missing one, as root
        "Hostname": session.name,
        "Env": [f"{name}={value}" for name, value in env.items()],
        "Labels": labels(session, here.server_id, root=here.root),
        "StopSignal": "SIGTERM",
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": host_config(session, here, settings),
    }


def host_config(session: Session, here: Surroundings, settings: DockerSettings) -> dict[str, Any]:
    seat = session.seat
    memory = seat.memory_bytes if seat is not None else 0
    return {
        "Mounts": [mount.plain() for mount in here.mounts],
        "NetworkMode": here.network,
        "Memory": memory,
        "MemorySwap": memory,  # memory and swap together: so no swap
        # An admin may say that there are more than there are, to have them shared; a daemon would refuse.
        "NanoCpus": min(seat.cpus_milli if seat is not None else 0, here.cpus_milli) * 1_000_000,
        "PidsLimit": settings.pids,
        "ShmSize": max(64 * 2**20, min(memory // 2, MOST_SHM)),  # PyTorch's loaders pass their batches there
        "Ulimits": ulimits(here.nofile, here.nproc, memlock=settings.memlock),
        "OomScoreAdj": OOM_SCORE,
        # No IPv6, whatever the daemon does: the firewall knows sessions by their IPv4 addresses.
        "Sysctls": {"net.ipv6.conf.all.disable_ipv6": "1"} if here.has_ipv6 else {},
        **confinement(root=here.root),
        **device_requests(here.gpus),
    }


def confinement(*, root: bool = False) -> dict[str, Any]:
    """The same for every container of ours. Seccomp and AppArmor stay as the daemon has them."""
    return {
        "Privileged": False,
        "CapDrop": ["ALL"],
        "CapAdd": list(ROOT_INSIDE) if root else [],
        "SecurityOpt": ["no-new-privileges"],
        # The porter reaps and passes signals on as docker's --init would; and as the first process it cannot be killed from inside,
        # which it could be as that init's child.
        "Init": False,
        "IpcMode": "private",
        "CgroupnsMode": "private",
        "ReadonlyRootfs": False,
        "PublishAllPorts": False,
        "RestartPolicy": {"Name": "no"},
        # For the porter's own few words: what a session writes goes into a file of ours.
        "LogConfig": {"Type": "json-file", "Config": {"max-size": "1m", "max-file": "1"}},
    }


def ulimits(nofile: int, nproc: int | None, *, memlock: bool = False) -> list[dict[str, Any]]:
    limits = {"nofile": nofile, "core": 0}
    if nproc is not None:
        limits["nproc"] = nproc
    if memlock:
        limits["memlock"] = -1
    return [{"Name": name, "Soft": most, "Hard": most} for name, most in limits.items()]


def device_requests(gpus: Gpus) -> dict[str, Any]:
    if gpus.cdi:
        return {"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": list(gpus.cdi)}]}
    if gpus.nvidia:
        return {"DeviceRequests": [{"Driver": "nvidia", "DeviceIDs": list(gpus.nvidia), "Capabilities": [["gpu"]]}]}
    return {}


def work_folder(session: Session) -> str:
    """Where its commands begin: its own choice, relative to its home, or home itself. Entered inside, with the session's own rights."""
    wanted, home = session.request.workdir or "", f"/home/{session.owner}"
    if wanted in ("", "~", "~/"):
        return home
    return wanted if wanted.startswith("/") else f"{home}/{wanted.removeprefix('~/')}"
