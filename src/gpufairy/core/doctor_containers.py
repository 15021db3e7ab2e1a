"""What the doctor says of containers: engine, runc, NVIDIA's toolkit, CDI, cgroups. Pure judgements of what was found."""
from gpufairy.core.doctor import Judged, bad, ok, skipped, unknown, warn
from gpufairy.core.doctor_facts import EngineFacts, Facts, GpuFact
from gpufairy.core.doctor_gpus import nothing_here
from gpufairy.core.doctor_os import install, install_engine, install_toolkit, upgrade
from gpufairy.core.doctor_versions import RUNC_HOLES, TOOLKIT_HOLES, holes_words, open_holes, parse_version

OLDEST = {"docker": (20, 10, 0), "podman": (4, 0, 0)}
CDI_FROM = {"docker": (25, 0, 0), "podman": (4, 1, 0)}
NEEDED = frozenset({"cpu", "memory", "pids"})  # controllers, by which sessions are held to their limits
CDI_FILE = "/etc/cdi/nvidia.yaml"
NO_ENGINE = "neither Docker nor Podman answers here"


def engine(facts: Facts) -> Judged:
    found = facts.engine
    if found.name is None:
        return unknown(found.trouble or "whether Docker or Podman answers could not be looked at")
    if not found.name:
        if "denied" in found.trouble.lower():
            return unknown(f"{found.trouble}: look as root", "sudo fairy doctor")
        return skipped(f"{NO_ENGINE}: sessions run as plain processes", *install_engine(facts.os))
    version = parse_version(found.version)
    if version is not None and version < OLDEST[found.name]:
        return warn(f"{found.name} {found.version} is old", *upgrade(facts.os, *ENGINE_PACKAGES[found.name]))
    return ok(f"{found.name} {found.version} answers at {found.socket}")


ENGINE_PACKAGES = {"docker": ("docker-ce", "docker.io", "moby-engine"), "podman": ("podman",)}


def live_restore(facts: Facts) -> Judged:
    found = facts.engine
    if found.name != "docker":
        return skipped("there is no Docker here")
    if found.live_restore is None:
        return unknown("Docker does not tell whether live-restore is on")
    if found.live_restore:
        return ok("a restart of Docker ends no session")
    note = '# put "live-restore": true into /etc/docker/daemon.json, then:'
    return warn("live-restore is off: a restart of Docker ends all sessions", note, *facts.os.run("systemctl reload docker"))


def cgroup_driver(facts: Facts) -> Judged:
    """With systemd's cgroups, `systemctl daemon-reload` takes from containers the devices that systemd was not told of."""
    found, gpu = facts.engine, facts.gpu
    if not found.name:
        return skipped(NO_ENGINE) if found.name == "" else unknown("the container engine could not be asked")
    nothing = nothing_here(gpu)
    if nothing is not None:
        return nothing
    if found.cgroup_driver != "systemd":
        return ok(f"cgroups are made by {found.cgroup_driver or found.name}: systemd takes no GPU away")
    if gives_by_cdi(facts) and gpu.char_links is not False:
        return ok("cgroups are made by systemd, and GPUs are given by CDI: a reload of systemd leaves them where they are")
    if gives_by_cdi(facts):
        return warn("/dev/char has no links to the GPUs: a reload of systemd takes them from running sessions", *char_links(facts))
    words = "cgroups are made by systemd and GPUs not given by CDI: a reload of systemd takes the GPUs from running sessions"
    return warn(words, *make_cdi(facts), *char_links(facts))


def char_links(facts: Facts) -> tuple[str, ...]:
    return facts.os.run("nvidia-ctk system create-dev-char-symlinks --create-all")


def gives_by_cdi(facts: Facts) -> bool:
    found = facts.engine
    return bool(found.cdi_names) and (found.name == "podman" or found.cdi_on is not False)


def cgroups(facts: Facts) -> Judged:
    found = facts.engine
    if found.cgroups is None:
        return unknown("/sys/fs/cgroup could not be read")
    lacking = NEEDED - (found.controllers or NEEDED)
    if lacking:
        note = "# add to the kernel's command line, then reboot: cgroup_enable=memory swapaccount=1 systemd.unified_cgroup_hierarchy=1"
        return bad(f"cgroups v{found.cgroups} lack the controllers {', '.join(sorted(lacking))}", note)
    if found.cgroups == 1:
        note = "# add to the kernel's command line, then reboot: systemd.unified_cgroup_hierarchy=1"
        return warn("cgroups are v1, which new systems no longer have; v2 tells more of memory", note)
    return ok("cgroups v2, with the controllers for CPU, memory and processes")


def runc(facts: Facts) -> Judged:
    found = facts.engine
    if found.runc is None:
        return unknown("the version of runc could not be learnt")
    version = parse_version(found.runc)
    if not found.runc or version is None:
        return skipped("there is no runc here")
    holes = open_holes(version, RUNC_HOLES, found.runc_mended)
    if holes:
        note = "# sessions that run keep the old one until they end"
        judged = bad if found.name else warn  # without an engine nobody runs it
        return judged(f"runc {found.runc} has {holes_words(holes)}", *upgrade(facts.os, "runc", "containerd.io"), note)
    mended = open_holes(version, RUNC_HOLES)
    return ok(f"runc {found.runc} was mended by the distribution" if mended else f"runc {found.runc} has no hole that is known")


def toolkit(facts: Facts) -> Judged:
    found = facts.engine
    nothing = nothing_here(facts.gpu)
    if nothing is not None and not found.toolkit:
        return nothing
    if found.toolkit is None:
        return unknown("the version of NVIDIA's container toolkit could not be learnt")
    version = parse_version(found.toolkit)
    if not found.toolkit or version is None:
        if not found.name:
            return skipped(NO_ENGINE)
        return bad("NVIDIA's container toolkit is not installed: containers get no GPU", *install_toolkit(facts.os))
    holes = open_holes(version, TOOLKIT_HOLES, found.toolkit_mended)
    if holes:
        return bad(f"toolkit {found.toolkit} has {holes_words(holes)}", *install_toolkit(facts.os))
    return ok(f"toolkit {found.toolkit} has no hole that is known")


def cdi(facts: Facts) -> Judged:
    found = facts.engine
    nothing = nothing_here(facts.gpu)
    if nothing is not None:
        return nothing
    if found.cdi_names is None:
        return unknown("/etc/cdi and /var/run/cdi could not be read")
    can = bool(found.toolkit)
    if not found.cdi_names and found.name == "":
        return skipped(NO_ENGINE)
    if not found.cdi_names:
        words = "no CDI file names a GPU"
        if found.name == "podman":
            return bad(f"{words}, and Podman knows GPUs by nothing else", *make_cdi(facts), fixable=can)
        return warn(words, *make_cdi(facts), fixable=can)
    missing = unnamed(facts.gpu.gpus, found.cdi_names)
    if missing:
        return bad(
            f"{file_of(found)} does not name {missing[0]}: it was written before GPUs were changed or cut", *make_cdi(facts), fixable=can
        )
    gone = no_more(facts.gpu.gpus, found.cdi_names)
    if gone:
        return warn(f"{file_of(found)} names {gone[0]}, which is not there any more", *make_cdi(facts), fixable=can)
    if found.name == "docker" and found.cdi_on is False and (parse_version(found.version) or (0, 0, 0)) >= CDI_FROM["docker"]:
        note = '# put "features": {"cdi": true} into /etc/docker/daemon.json, then:'
        return warn("Docker does not look at CDI files", note, *facts.os.run("systemctl restart docker"))
    return ok(f"{file_of(found)} names all GPUs")


def unnamed(gpus: tuple[GpuFact, ...], names: frozenset[str]) -> list[str]:
    """GPUs and instances that no file names, by UUID or by number (`0`, and `0:1` of an instance)."""
    missing = []
    for gpu in gpus:
        if gpu.mig and gpu.instances:
            missing += [one for place, one in enumerate(gpu.instances) if not {one, f"{gpu.index}:{place}"} & names]
        elif not gpu.mig and not gpu.lost and not {gpu.uuid, str(gpu.index)} & names:
            missing.append(gpu.uuid)
    return missing


def no_more(gpus: tuple[GpuFact, ...], names: frozenset[str]) -> list[str]:
    there = {one for gpu in gpus for one in (gpu.uuid, *gpu.instances)}
    return sorted(name for name in names if name.startswith(("GPU-", "MIG-")) and name not in there)


def file_of(found: EngineFacts) -> str:
    return found.cdi_files[0] if found.cdi_files else CDI_FILE


def make_cdi(facts: Facts) -> tuple[str, ...]:
    return facts.os.run(f"nvidia-ctk cdi generate --output={file_of(facts.engine)}")


def nft(facts: Facts) -> Judged:
    if not facts.engine.name:
        return skipped(NO_ENGINE)
    if facts.engine.nft is None:
        return unknown("whether nft is there could not be seen")
    if facts.engine.nft:
        return ok("nft is there")
    words = "there is no nft, so sessions cannot be kept from the host's own services"
    return bad(words, *install(facts.os, "nftables"))
