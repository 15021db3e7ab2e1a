"""What the doctor says of driver and GPUs: pure judgements of what was found."""
from gpufairy.core.doctor import Judged, bad, ok, skipped, unknown, warn
from gpufairy.core.doctor_facts import Facts, GpuFact, GpuFacts, Nvml
from gpufairy.core.doctor_os import Family, install, install_driver, write_file
from gpufairy.core.doctor_versions import parse_version

EXCLUSIVE_PROCESS = 3  # NVML's number
OLDEST_DRIVER = 470  # the first whose CUDA (11.4) runs images of CUDA 12 by their compatibility package
OLDEST_KEPT_DRIVER = 535  # older lines get no security fixes any more
TRUE_PIDS_FROM = (535, 113)  # from here on a container is told its own PIDs, not the host's
NO_GPU = "there is no NVIDIA GPU on this machine"


def nothing_here(gpu: GpuFacts) -> Judged | None:
    """Why nothing about GPUs can be said here; None: there is something."""
    if gpu.nvml is Nvml.ANSWERED and gpu.gpus:
        return None
    if gpu.on_bus == 0 and gpu.nvml is not Nvml.HUNG:
        return skipped(NO_GPU)
    if gpu.in_container and gpu.nvml is Nvml.NO_LIBRARY:
        return skipped("this container was given no GPU: look on its host, or in the agent's pod")
    if gpu.on_bus is None and gpu.nvml is Nvml.NOT_ASKED:
        return unknown("whether there are GPUs could not be looked at")
    return None


def driver(facts: Facts) -> Judged:
    gpu = facts.gpu
    nothing = nothing_here(gpu)
    if nothing is not None:
        return nothing
    said = gpu.driver or gpu.module
    version = None if said is None else parse_version(said)
    if said == "" or (version is None and gpu.nvml is Nvml.NO_LIBRARY):
        return bad("there is a GPU, and no driver of NVIDIA's", *install_driver(facts.os))
    if version is None:
        return unknown("the driver does not tell its version", "nvidia-smi", "sudo dmesg | grep -i nvrm | tail")
    if version[0] < OLDEST_DRIVER:
        return bad(f"driver {said} is older than {OLDEST_DRIVER}: images of today do not run on it", *install_driver(facts.os))
    if version[0] < OLDEST_KEPT_DRIVER:
        return warn(f"driver {said} gets no security fixes any more", *install_driver(facts.os))
    if version[:2] < TRUE_PIDS_FROM:
        words = f"driver {said} tells containers the host's PIDs; from 535.113 on they are told their own"
        return warn(words, *install_driver(facts.os))
    return ok(f"driver {said} is in use")


def nvml(facts: Facts) -> Judged:
    gpu = facts.gpu
    nothing = nothing_here(gpu)
    if nothing is not None:
        return nothing
    look = facts.os.run("dmesg | grep -iE 'nvrm|xid' | tail")
    match gpu.nvml:
        case Nvml.HUNG:
            return bad(f"the driver does not answer: {gpu.nvml_trouble}", *look, *facts.os.run("reboot"))
        case Nvml.NO_LIBRARY:
            return bad("libnvidia-ml.so.1 is not to be found", *install_driver(facts.os))
        case Nvml.FAILED if "mismatch" in gpu.nvml_trouble.lower():
            return bad(f"the driver's library and its kernel module differ: {gpu.nvml_trouble}", *facts.os.run("reboot"))
        case Nvml.FAILED:
            return bad(f"the driver cannot be asked: {gpu.nvml_trouble}", *facts.os.run("modprobe nvidia"), *look)
        case Nvml.NOT_ASKED:
            return unknown("the driver was not asked")
    gone = [one for one in gpu.gpus if one.lost]
    if gone:
        return bad(f"GPU {gone[0].index} does not answer: {gone[0].lost}", *look, *facts.os.run("reboot"))
    return ok(f"NVML answers; GPUs that it tells of: {len(gpu.gpus)}")


def kernel_module(facts: Facts) -> Judged:
    gpu = facts.gpu
    nothing = nothing_here(gpu)
    if nothing is not None:
        return nothing
    if gpu.module is None:
        return unknown("whether the kernel module nvidia is loaded could not be seen")
    if not gpu.module:
        if gpu.nvml is Nvml.ANSWERED:  # a driver that is simulated, or built into the kernel
            return ok("NVML answers without a kernel module of its own")
        return bad("the kernel module nvidia is not loaded", *facts.os.run("modprobe nvidia", "dmesg | grep -i nvidia | tail"))
    if gpu.driver and gpu.driver != gpu.module:
        return bad(
            f"the kernel module is {gpu.module}, the library {gpu.driver}: the driver was changed under a running system",
            *facts.os.run("reboot"),
        )
    return ok(f"the kernel module nvidia {gpu.module} is loaded")


def nouveau(facts: Facts) -> Judged:
    gpu = facts.gpu
    nothing = nothing_here(gpu)
    if nothing is not None:
        return nothing
    if gpu.nouveau is None:
        return unknown("whether nouveau is loaded could not be seen")
    if not gpu.nouveau:
        return ok("nouveau is not loaded")
    line = write_file(facts.os, "/etc/modprobe.d/blacklist-nouveau.conf", "blacklist nouveau")
    image = {
        Family.RHEL: "dracut --force", Family.FEDORA: "dracut --force", Family.SUSE: "dracut --force", Family.ARCH: "mkinitcpio -P",
    }.get(facts.os.family, "update-initramfs -u")  # fmt: skip
    return bad("nouveau is loaded, and keeps NVIDIA's driver from the GPUs", line, *facts.os.run(image, "reboot"))


def persistence(facts: Facts) -> Judged:
    nothing = nothing_here(facts.gpu) or silent(facts.gpu)
    if nothing is not None:
        return nothing
    modes = [one.persistent for one in facts.gpu.gpus if not one.lost]
    off = [one.index for one in facts.gpu.gpus if one.persistent is False]
    if off:
        return warn(
            f"persistence mode is off on GPU {numbers(off)}",
            *facts.os.run("systemctl enable --now nvidia-persistenced", "nvidia-smi -pm 1"),
        )
    return unknown("the driver does not tell the persistence mode") if None in modes else ok("persistence mode is on")


def mig(facts: Facts) -> Judged:
    nothing = nothing_here(facts.gpu) or silent(facts.gpu)
    if nothing is not None:
        return nothing
    can = [one for one in facts.gpu.gpus if one.mig is not None]
    if not can:
        return skipped("no GPU here can be cut by MIG")
    waiting = [one for one in can if pends(one)]
    if waiting:
        becomes = "on" if waiting[0].mig_pending else "off"
        resets = [f"nvidia-smi --gpu-reset -i {one.index}" for one in waiting]
        note = "# while nobody uses it; on some machines it takes a reboot"
        return warn(
            f"MIG mode of GPU {numbers([one.index for one in waiting])} goes {becomes} with its next reset", note, *facts.os.run(*resets)
        )
    empty = [one.index for one in can if one.mig and not one.instances]
    if empty:
        return warn(
            f"GPU {numbers(empty)} is in MIG mode and has no instances, so nobody can use it", "fairy mig plan --help", "fairy mig show"
        )
    cut = [one for one in can if one.mig]
    return ok(f"{len(cut)} of {len(can)} GPUs that can be cut are, into {sum(len(one.instances) for one in cut)} instances")


def mps(facts: Facts) -> Judged:
    nothing = nothing_here(facts.gpu)
    if nothing is not None:
        return nothing
    stuck = [one for one in facts.mps.exclusive_kept if one not in facts.mps.live and mode_of(facts, one) in (None, EXCLUSIVE_PROCESS)]
    if stuck and not facts.host.server_runs_here:
        return bad(f"GPU {stuck[0]} was left in compute mode EXCLUSIVE_PROCESS", *facts.os.run(f"nvidia-smi -i {stuck[0]} -c DEFAULT"))
    if facts.mps.left_over and not facts.host.server_runs_here:
        return warn(
            f"pipes of an MPS daemon that is gone are left for GPU {facts.mps.left_over[0]}", "fairy doctor --fix --only mps", fixable=True
        )
    if facts.mps.program is None:
        return unknown("whether MPS is installed could not be seen")
    if not facts.mps.program:
        fix = install(facts.os, "nvidia-cuda-mps", words="nvidia-cuda-mps-control, a part of NVIDIA's driver", **MPS_PACKAGES)
        return warn("nvidia-cuda-mps-control is not there: fractions of GPUs are shared in turns, and only accounted", *fix)
    return ok(f"MPS is there; daemons run for {len(facts.mps.live)} GPUs")


MPS_PACKAGES = {
    "ubuntu": "nvidia-compute-utils-580", "rhel": "nvidia-driver-cuda", "fedora": "xorg-x11-drv-nvidia-cuda",
    "suse": "nvidia-compute-utils-G06", "arch": "nvidia-utils",
}  # fmt: skip


def silent(gpu: GpuFacts) -> Judged | None:
    return None if gpu.nvml is Nvml.ANSWERED else unknown("the driver does not answer: see the check nvml")


def pends(gpu: GpuFact) -> bool:
    return gpu.mig is not None and gpu.mig_pending is not None and gpu.mig != gpu.mig_pending


def mode_of(facts: Facts, uuid: str) -> int | None:
    return next((one.compute_mode for one in facts.gpu.gpus if one.uuid == uuid), None)


def numbers(indices: list[int]) -> str:
    return ", ".join(map(str, indices))
