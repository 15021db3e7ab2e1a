"""What the doctor says of metrics, PIDs and MIG as a collector sees them: three troubles that people have, each a path of questions."""
from collections.abc import Iterator
from datetime import timedelta

from gpufairy.core.amounts import show_duration
from gpufairy.core.doctor import Judged, Verdict, bad, ok, path_of, skipped, unknown, warn
from gpufairy.core.doctor_containers import make_cdi, unnamed
from gpufairy.core.doctor_facts import Facts, Kube, Nvml
from gpufairy.core.doctor_gpus import driver, nothing_here, numbers, nvml, pends

FILE = "gpu_sessions.prom"
STALE = timedelta(minutes=5)  # a collector by cron writes each minute
OK_STATUS = 200
WITH_HOST_PIDS = "# give the collector the host's PIDs: `docker run --pid=host`, on Kubernetes `hostPID: true` (the Helm chart does)"


def no_metrics(facts: Facts) -> Judged:
    found = facts.metrics
    path = path_of(_to_metrics(facts), "metrics are collected, and the way to Prometheus is open")
    if found.status is None and found.file_age is None and nothing_here(facts.gpu) is not None:
        return Judged(Verdict.SKIPPED, "nothing here is watched: no collector, and no GPU", ("fairy exporter",), steps=path.steps)
    return path


def _to_metrics(facts: Facts) -> Iterator[tuple[str, Judged]]:
    yield "Can the GPUs be read?", nvml(facts)
    yield "Does a collector run and answer?", collector(facts)
    yield "Did it read all that it should?", collectors(facts)
    yield "Does node-exporter's textfile folder get the file?", textfile(facts)
    yield "Does Prometheus fetch it?", prometheus(facts)


def collector(facts: Facts) -> Judged:
    found = facts.metrics
    if found.status == OK_STATUS:
        return ok(f"the collector at {found.exporter} answers")
    if found.status is not None:
        return bad(f"the collector at {found.exporter} answers {found.status}: {found.words}", "journalctl -u fairy-exporter -n 50")
    if found.file_age is not None and found.file_age <= STALE:
        return ok(f"a collector writes {FILE}, and serves no port")
    return warn("no collector answers here", "systemctl status fairy-exporter fairy-agent", "fairy exporter")


COLLECTOR_NEXT = {
    "gpu": "nvidia-smi",
    "containers": "# it needs Docker's or Podman's socket: run it as root, or set DOCKER_HOST=unix:///PATH",
    "pods": "# it needs the right to list pods: see docs/monitoring.md#pods, or install the Helm chart",
}


def collectors(facts: Facts) -> Judged:
    failed = [name for name, success in facts.metrics.collectors if not success]
    if failed:
        next_line = COLLECTOR_NEXT.get(failed[0], "journalctl -u fairy-exporter -n 50")
        return bad(f"the collector could not read: {', '.join(failed)}", next_line, "journalctl -u fairy-exporter -n 50")
    if not facts.metrics.collectors:
        return skipped("no collector tells what it read")
    return ok(f"the collector read {', '.join(name for name, _ in facts.metrics.collectors)}")


def textfile(facts: Facts) -> Judged:
    found = facts.metrics
    if not found.folder:
        return skipped("there is no textfile folder of node-exporter here")
    if found.file_age is None:
        sudo = "" if found.folder_writable is not False else "sudo "
        return skipped(f"no collector writes {FILE} into {found.folder}", f"{sudo}fairy exporter --textfile {found.folder}")
    if found.file_age > STALE:
        words = f"{FILE} in {found.folder} is {show_duration(found.file_age)} old: nobody writes it any more"
        return bad(words, "systemctl status fairy-exporter fairy-agent", f"fairy exporter --textfile {found.folder}")
    if found.scrape_error:
        return bad(
            f"node-exporter cannot read a file in {found.folder}",
            f"for f in {found.folder}/*.prom; do promtool check metrics < $f || echo $f; done",
        )
    return ok(f"{FILE} in {found.folder} is {show_duration(found.file_age)} old")


def prometheus(facts: Facts) -> Judged:
    found = facts.metrics
    if not found.prometheus_answers:
        return skipped("no Prometheus answers here", "fairy doctor --prometheus http://HOST:9090 --only prometheus")
    if found.scraped is None:
        return unknown(f"Prometheus at {found.prometheus} does not tell its targets")
    if not found.scraped:
        return warn(
            f"Prometheus at {found.prometheus} fetches nothing of gpufairy",
            "# add the jobs of deploy/prometheus/prometheus.yml to its settings",
        )
    if found.scrape_trouble:
        return bad(f"Prometheus at {found.prometheus} cannot fetch: {found.scrape_trouble}", "curl -s http://127.0.0.1:9835/metrics | head")
    return ok(f"Prometheus at {found.prometheus} fetches")


def wrong_pids(facts: Facts) -> Judged:
    nothing = nothing_here(facts.gpu)
    if nothing is not None:
        return nothing
    return path_of(_to_pids(facts), "PIDs are those of the host, as nvidia-smi there shows them")


def _to_pids(facts: Facts) -> Iterator[tuple[str, Judged]]:
    yield "Whose PIDs does this driver tell?", driver(facts)
    yield "Are we among the host's processes?", namespace(facts)
    yield "Is the /proc that is read here of the same namespace?", same_proc(facts)
    yield "Are processes of others to be seen?", hidden(facts)
    yield "Is every PID that the driver tells in /proc?", told_pids(facts)


def namespace(facts: Facts) -> Judged:
    match facts.host.hosts_pids:
        case None:
            return unknown("the PID namespace could not be looked at")
        case True:
            return ok("we are in the host's PID namespace")
    return bad("this is a container with PIDs of its own: the driver tells it of its own processes alone", WITH_HOST_PIDS)


def same_proc(facts: Facts) -> Judged:
    match facts.host.pids_match:
        case None:
            return unknown("/proc could not be looked at")
        case True:
            return ok("numbers that the driver tells are those of /proc here")
    return bad("the driver tells PIDs of another namespace than /proc here", WITH_HOST_PIDS)


def hidden(facts: Facts) -> Judged:
    if not facts.host.hidepid or facts.host.uid == 0:
        return ok("processes of all users are seen")
    words = f"/proc is mounted with hidepid={facts.host.hidepid}: processes of others are not seen by this account"
    return bad(
        words, "# run the collector as root, or add its account to the group that gid= of that mount names", "grep ' /proc ' /proc/mounts"
    )


def told_pids(facts: Facts) -> Judged:
    strange, told = facts.host.strange_pids, sum(len(gpu.pids) for gpu in facts.gpu.gpus)
    if strange is None:
        return unknown("the driver tells no PIDs")
    if strange:
        return bad(f"{strange} of {told} PIDs that the driver tells are not in /proc here", WITH_HOST_PIDS)
    return ok(f"all {told} PIDs that the driver tells are in /proc here")


def mig_not_seen(facts: Facts) -> Judged:
    nothing = nothing_here(facts.gpu)
    if nothing is not None:
        return nothing
    if facts.gpu.nvml is Nvml.ANSWERED and all(gpu.mig is None for gpu in facts.gpu.gpus):
        return skipped("no GPU here can be cut by MIG")
    if facts.gpu.nvml is Nvml.ANSWERED and not any(gpu.mig or gpu.mig_pending for gpu in facts.gpu.gpus):
        on = ("# while nobody uses it:", *facts.os.run("nvidia-smi -i 0 -mig 1"))
        return skipped("MIG mode is off on all GPUs", *on)
    return path_of(_to_mig(facts), "MIG instances are there, and seen")


def _to_mig(facts: Facts) -> Iterator[tuple[str, Judged]]:
    yield "Does the driver answer?", nvml(facts)
    yield "Is MIG mode on, and in force?", mig_mode(facts)
    yield "Are there instances?", instances(facts)
    yield "Are their device files here?", caps(facts)
    yield "Do CDI files name them, so that containers can have them?", named(facts)
    yield "Does the device plugin of Kubernetes offer them?", offered(facts)


def mig_mode(facts: Facts) -> Judged:
    waiting = [gpu.index for gpu in facts.gpu.gpus if pends(gpu) and gpu.mig_pending]
    if waiting:
        reset = facts.os.run(f"nvidia-smi --gpu-reset -i {waiting[0]}")
        return bad(f"MIG mode of GPU {numbers(waiting)} was switched on and waits for a reset", "# while nobody uses it:", *reset)
    on = [gpu.index for gpu in facts.gpu.gpus if gpu.mig]
    return ok(f"MIG mode is on for GPU {numbers(on)}")


def instances(facts: Facts) -> Judged:
    cut = [gpu for gpu in facts.gpu.gpus if gpu.mig]
    empty = [gpu.index for gpu in cut if not gpu.instances]
    if empty:
        fix = ("fairy mig show", "fairy mig apply --help", "nvidia-smi mig -lgip")
        return bad(f"GPU {numbers(empty)} is in MIG mode without instances: there is nothing to see", *fix)
    return ok(f"{sum(len(gpu.instances) for gpu in cut)} MIG instances are there")


def caps(facts: Facts) -> Judged:
    if facts.gpu.caps is None:
        return unknown("/dev/nvidia-caps could not be looked at")
    if facts.gpu.caps == 0:
        inside = (
            "# give the container /dev/nvidia-caps: start it with --gpus all or by CDI; on Kubernetes set NVIDIA_MIG_MONITOR_DEVICES=all"
        )
        fix = (
            (inside,)
            if facts.gpu.in_container
            else facts.os.run("nvidia-modprobe -f /proc/driver/nvidia/capabilities/mig/monitor", "nvidia-smi -L")
        )
        return bad("there are no device files in /dev/nvidia-caps", *fix)
    return ok(f"{facts.gpu.caps} device files are in /dev/nvidia-caps")


def named(facts: Facts) -> Judged:
    names = facts.engine.cdi_names
    if not names:
        return skipped("no CDI files here")
    missing = [one for one in unnamed(facts.gpu.gpus, names) if one.startswith("MIG-")]
    if missing:
        return bad(f"{missing[0]} is in no CDI file", *make_cdi(facts), fixable=bool(facts.engine.toolkit))
    return ok("CDI files name all instances")


def offered(facts: Facts) -> Judged:
    if facts.kube.state is not Kube.ANSWERS or facts.kube.gpu_resources is None:
        return skipped("no Kubernetes is asked here")
    by_mig = [name for name in facts.kube.gpu_resources if "/mig-" in name]
    if by_mig or facts.kube.dra_gpus:
        return ok(f"nodes offer {', '.join(by_mig) or 'GPUs by DRA'}")
    note = "# set migStrategy: mixed for NVIDIA's device plugin or GPU operator, then:"
    restart = "kubectl -n kube-system rollout restart daemonset nvidia-device-plugin-daemonset"
    return warn("no node of the cluster offers MIG instances", note, restart)
