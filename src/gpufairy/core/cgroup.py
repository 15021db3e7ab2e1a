"""In which container a process is, by the text of its /proc/PID/cgroup: versions 1 and 2, hybrid, nested, every common runtime.

The text is a stranger's: whoever may make cgroups may name them. It is cut, and read in one pass.
"""
import re
from collections.abc import Iterator
from dataclasses import dataclass

LONGEST_TEXT = 64 * 1024  # characters; the kernel's own is a dozen lines of some hundred
LONGEST_PIECE = 255  # bytes of a file name, and a cgroup is a folder


@dataclass(frozen=True, slots=True)
class Container:
    """`kubepods` and a pod: Kubernetes, and the path does not tell by which runtime. No id: a pod's own cgroup, a monitor, a batch job."""

    runtime: str
    container_id: str | None = None
    pod_uid: str | None = None


@dataclass(frozen=True, slots=True)
class CgroupPath:
    """One line: the controllers (none: version 2) and the path, without its leading stroke."""

    controllers: tuple[str, ...]
    path: str


def container_of(text: str) -> Container | None:
    """The innermost one: in a container inside a container a process is in the inner. None: in none."""
    chain = containers_of(text)
    return chain[-1] if chain else None


def containers_of(text: str) -> tuple[Container, ...]:
    """All that the process is in, outermost first. On hybrid hosts the lines differ, and the one that knows most is taken."""
    chains = [tuple(found for _, found in containers_on(line.path)) for line in cgroup_paths(text)]
    return max(chains, key=_knowledge, default=())


def _knowledge(chain: tuple[Container, ...]) -> int:
    if not chain:
        return 0
    return 3 if chain[-1].container_id else 2 if chain[-1].pod_uid else 1


def user_slice(text: str) -> int | None:
    """The uid of the user whose systemd slice the process is in: there run rootless containers, and nobody else can put them there."""
    found = next((match for line in cgroup_paths(text) if (match := USER_SLICE.match(line.path))), None)
    return int(found[1]) if found else None


def whole_container(text: str, container_id: str) -> tuple[CgroupPath, ...]:
    """Line by line the cgroup of that container itself: a process may be in one further down, of its own making."""
    return tuple(
        CgroupPath(line.controllers, line.path[:end])
        for line in cgroup_paths(text)
        for end, found in containers_on(line.path)
        if found.container_id == container_id
    )


def cgroup_paths(text: str) -> Iterator[CgroupPath]:
    # Not splitlines: a cgroup's name may hold every other kind of line break, and so forge a line.
    for line in text[:LONGEST_TEXT].split("\n"):
        _, colon, rest = line.partition(":")
        controllers, second_colon, path = rest.partition(":")
        if colon and second_colon:
            yield CgroupPath(tuple(controllers.split(",")) if controllers else (), path.strip("/"))


def containers_on(path: str) -> Iterator[tuple[int, Container]]:
    """Each with the place in the path where its own name ends."""
    parent, grandparent, pod, waiting = "", "", None, False
    end = -1
    # A systemd kubelet over a containerd without systemd joins its names by colons; the parts mean what folders do.
    for piece in re.split("[/:]", path):
        end += 1 + len(piece)
        seen_pod = POD.fullmatch(piece) if len(piece) <= LONGEST_PIECE else None
        if seen_pod:
            pod, waiting = seen_pod[1].replace("_", "-"), True
            yield end, Container("kubepods", None, pod)
        elif found := _named(piece, parent, grandparent, below_pod=waiting):
            runtime, container_id = found
            waiting = False
            yield end, Container(runtime, container_id, pod)
        parent, grandparent = piece, parent


def _named(piece: str, parent: str, grandparent: str, *, below_pod: bool) -> tuple[str, str | None] | None:
    """The runtime and id that one piece of a path tells, if any."""
    if len(piece) > LONGEST_PIECE:
        return None
    for runtime, shape in BY_OWN_NAME:
        if match := shape.fullmatch(piece):
            return runtime, _unescaped(match[1]) if shape.groups else None
    for runtime, above, shape in BY_PARENT:
        if above in (parent, f"{grandparent}/{parent}", f"{grandparent}/*") and shape.fullmatch(piece):
            return runtime, None if runtime in WITHOUT_ID else _unescaped(piece)
    if below_pod and (HEX_ID.fullmatch(piece) or UUID.fullmatch(piece)):
        return "kubepods", piece
    # A bare id: Docker, under the folder that somebody set as its cgroup parent, or under none at all.
    return ("docker", piece) if HEX_ID.fullmatch(piece) else None


def _unescaped(name: str) -> str:
    r"""systemd writes `-` inside a name as \x2d."""
    plain = ESCAPED.sub(lambda match: chr(int(match[1], 16)), name)
    return plain if plain.isprintable() else name


HEX_ID = re.compile("[0-9a-f]{64}")
UUID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
POD = re.compile(
    r"(?:(?:kubelet-)?kubepods(?:-besteffort|-burstable)?-)?"
    r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?"
)
USER_SLICE = re.compile(r"(?:\.\./){0,16}user\.slice/user-([0-9]{1,10})\.slice(?:/|$)")  # at the top: a container has slices of its own
ESCAPED = re.compile(r"\\x([0-9a-f]{2})")
WITHOUT_ID = ("podman-conmon", "slurm")  # monitors are not in the container they watch, jobs are not containers

# (runtime, what a piece looks like; its group is the id, and without a group there is none)
BY_OWN_NAME = (
    ("docker", re.compile(r"docker-([0-9a-f]{64})(?:\.scope)?")),
    ("podman", re.compile(r"libpod-(?:payload-)?([0-9a-f]{64})(?:\.scope)?")),
    ("podman-conmon", re.compile(r"libpod-conmon-[0-9a-f]{64}(?:\.scope)?")),
    ("cri-o", re.compile(r"crio-([0-9a-f]{64})(?:\.scope)?")),
    ("cri-o-conmon", re.compile(r"crio-conmon-[0-9a-f]{64}(?:\.scope)?")),
    ("containerd", re.compile(r"(?:cri-containerd|nerdctl)-([0-9a-f]{64})(?:\.scope)?")),
    ("lxc", re.compile(r"lxc\.payload\.(.{1,64})")),
    ("libvirt", re.compile(r"machine-qemu\\x2d[0-9]{1,9}\\x2d(.{1,200})\.scope")),
    ("nspawn", re.compile(r"systemd-nspawn@(.{1,200})\.service")),
)
# (runtime, the piece above or the two above (* for any), what a piece looks like)
BY_PARENT = (
    ("docker", "docker", HEX_ID),
    ("podman", "libpod", HEX_ID),
    ("podman", "libpod_parent", HEX_ID),
    ("podman-conmon", "libpod_parent", re.compile("conmon")),
    ("containerd", "k8s.io", HEX_ID),
    ("containerd", "cri-containerd", HEX_ID),
    ("buildkit", "docker/buildkit", re.compile("[0-9a-z]{20,32}")),
    ("lxc", "lxc", re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")),
    ("ecs", "ecs/*", re.compile("[0-9a-f]{32}-[0-9]{1,20}")),
    ("slurm", "slurmstepd.scope", re.compile("job_[0-9]{1,10}")),
    ("slurm", "slurm/*", re.compile("job_[0-9]{1,10}")),
)
