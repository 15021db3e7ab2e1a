"""Rules of insight: each looks at the figures of one session and says one thing, or nothing. What is not known compares as false."""
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from gpufairy.core.amounts import show_cpus, show_duration, show_size
from gpufairy.core.insight import Advice, Code, Evidence, GpuLook, Pace, SessionLook, ranked
from gpufairy.core.insight_figures import KNOWN_PART, Figures, GpuFigures, figures_of, gpu_figures_of
from gpufairy.core.insight_limits import LIMITS, Limits

GIB = 2**30


def advice(look: SessionLook, pace: Pace = Pace(), limits: Limits = LIMITS) -> list[Advice]:
    return advice_of_all([look], pace, limits)[0]


def advice_of_all(looks: Sequence[SessionLook], pace: Pace = Pace(), limits: Limits = LIMITS) -> list[list[Advice]]:
    """The same of many at once, which costs little more than of one."""
    figures, of_gpus = figures_of(looks, pace, limits), gpu_figures_of(looks, pace)
    cases = (_Case(look, one, gpus, pace, limits) for look, one, gpus in zip(looks, figures, of_gpus, strict=True))
    return [ranked([found for rule in RULES for found in rule(case)]) for case in cases]


@dataclass(frozen=True, slots=True)
class _Case:
    look: SessionLook
    seen: Figures
    gpus: tuple[GpuFigures, ...]
    pace: Pace
    limits: Limits

    def mostly(self, part: float) -> bool:
        return part >= self.limits.most_of_the_time

    @property
    def computes(self) -> bool:
        return self.seen.gpu >= self.limits.works

    @property
    def window(self) -> timedelta:
        return self.pace.length(min(self.pace.steps, self.look.age_steps))

    @property
    def waste(self) -> float:
        """GPUs that it holds and that do nothing."""
        return self.look.gpus * (1 - min(1.0, self.seen.gpu))

    def says(self, code: Code, sentence: str, next_step: str, sure: float, saves: float, *evidence: Evidence) -> Advice:
        known = tuple(one for one in evidence if not math.isnan(one.value))
        return Advice(code, sentence, next_step, known, round(min(1.0, sure), 2), self.window, round(saves, 3))

    @property
    def gpu_evidence(self) -> Evidence:
        return Evidence("gpu", _rounded(self.seen.gpu), "ratio")

    @property
    def cpus_evidence(self) -> Evidence:
        return Evidence("cpus", _rounded(self.seen.cpus), "cpus", self.look.cpus)


def host_memory(case: _Case) -> Iterator[Advice]:
    """Of interest at once, also to short jobs: it is killed beyond the limit."""
    look, part = case.look, case.seen.memory_recent
    if case.seen.memory_full < 1 or not part >= case.limits.memory_full:
        return
    used, more = int(part * look.memory_bytes), math.ceil(1.5 * look.memory_bytes / GIB)
    yield case.says(
        Code.HOST_MEMORY, f"Its memory is nearly full: {show_size(used)} of {show_size(look.memory_bytes)}.",
        f"Ask for more (--memory {more}GiB), or hold less at once: fewer loader workers, memory-mapped data. "
        "Beyond its limit it is killed.",
        0.95, look.gpus + 1, Evidence("memory", used, "bytes", look.memory_bytes),
    )  # fmt: skip


def finished(case: _Case) -> Iterator[Advice]:
    """Batch alone: an interactive session that rests is reclaim's matter."""
    seen, pace = case.seen, case.pace
    worked = seen.worked >= pace.least or seen.rests >= KNOWN_PART * pace.back
    if not case.look.is_batch or case.look.gpus <= 0 or seen.rests < pace.steps // 2 or not worked:
        return
    yield case.says(
        Code.FINISHED, f"It seems to have finished: nothing has run in it for {_time(pace, seen.rests)}.",
        f"Look at the end of its log (`fairy logs {case.look.name}`), and stop it if it is done (`fairy stop {case.look.name}`).",
        0.75 + 0.2 * min(1.0, seen.rests / pace.steps), case.look.gpus,
        Evidence("rests", pace.length(seen.rests).total_seconds(), "seconds"),
    )  # fmt: skip


def memory_held(case: _Case) -> Iterator[Advice]:
    seen, look = case.seen, case.look
    if not case.mostly(seen.gpu_idle) or seen.gpu_idle < 1 or not seen.cpus < case.limits.cpus_busy:
        return
    if not seen.gpu_memory_low >= case.limits.memory_held:
        return
    held = int(seen.gpu_memory * look.gpu_memory_bytes)
    yield case.says(
        Code.MEMORY_HELD, f"It holds {show_size(held)} of GPU memory and has computed nothing for {_time(case.pace, seen.known)}.",
        f"End the program that holds it, a notebook's kernel too, or stop the session (`fairy stop {look.name}`).",
        0.95, look.gpus, Evidence("gpu_memory", held, "bytes", look.gpu_memory_bytes), case.gpu_evidence,
    )  # fmt: skip


def gpu_unused(case: _Case) -> Iterator[Advice]:
    seen = case.seen
    if not seen.gpu_idle >= 1 or not seen.cpus >= case.limits.cpus_busy or case.look.gpus <= 0:
        return
    yield case.says(
        Code.GPU_UNUSED, f"Its CPUs work and its GPU does not: {_figure(seen.cpus)} CPUs busy, GPU {_percent(seen.gpu)}.",
        "Check that the program finds the GPU (torch.cuda.is_available()), or prepare data in a session without one (--gpus 0).",
        0.9, case.look.gpus, case.cpus_evidence, case.gpu_evidence,
    )  # fmt: skip


def spare_gpu(case: _Case) -> Iterator[Advice]:
    pairs = list(zip(case.look.gpus_of, case.gpus, strict=True))
    if len(pairs) < 2 or not all(look.whole for look, _ in pairs):
        return
    spare = [(look, seen) for look, seen in pairs if seen.use_max < case.limits.idle]
    busy = [seen.use for _, seen in pairs if seen.use >= case.limits.spare_busy]
    if not spare or len(spare) + len(busy) < len(pairs):
        return
    names = " and ".join(str(look.index) for look, _ in spare)
    idle = f"GPU {names} is not used" if len(spare) == 1 else f"GPUs {names} are not used"
    yield case.says(
        Code.SPARE_GPU, f"{idle}: {len(busy)} of its {len(pairs)} GPUs work.",
        f"Ask for {len(busy)}, or spread the work over all of them (torchrun, DistributedDataParallel).",
        0.95, len(spare), *(Evidence(f"gpu {look.index}", _rounded(seen.use), "ratio") for look, seen in pairs),
    )  # fmt: skip


def loader_starves(case: _Case) -> Iterator[Advice]:
    seen, look = case.seen, case.look
    if not case.computes or not case.mostly(seen.starved) or not seen.gpu < case.limits.gpu_low:
        return
    more = min(2 * look.cpus, look.node_cpus or math.inf)
    part = _percent(min(1.0, seen.cpus / look.cpus))
    way = "Raise num_workers, prepare the data once beforehand, or let the GPU prepare it (DALI)."
    if more >= look.cpus + 1:
        way = f"Ask for {show_cpus(int(more * 1000))} CPUs, raise num_workers, or let the GPU prepare the data (DALI)."
    yield case.says(
        Code.LOADER, f"The data loader starves the GPU: GPU {_percent(seen.gpu)} while its {_figure(look.cpus)} CPUs are at {part}.",
        way, 0.95 * seen.starved, case.waste, case.gpu_evidence, case.cpus_evidence,
    )  # fmt: skip


def storage_bound(case: _Case) -> Iterator[Advice]:
    seen = case.seen
    if not case.computes or not seen.gpu < case.limits.gpu_low:
        return
    way = "Pack small files into a few large ones (WebDataset, LMDB), copy them to a local disk first, or keep them in memory."
    moved = "" if math.isnan(seen.moved_bytes_per_s) else f" at {show_size(int(seen.moved_bytes_per_s))}/s"
    flow, gpu = Evidence("moved", _rounded(seen.moved_bytes_per_s), "bytes_per_s"), _percent(seen.gpu)
    if case.mostly(seen.waits_for_disk):
        sentence = f"Storage holds it up: it waits for a disk {_percent(seen.io_waited)} of the time{moved}, and the GPU does {gpu}."
        waited = Evidence("io_waited", _rounded(seen.io_waited), "ratio")
        yield case.says(Code.STORAGE, sentence, way, 0.9 * seen.waits_for_disk, case.waste, waited, case.gpu_evidence, flow)
    elif case.mostly(seen.disk_is_full) and not seen.io_waited < case.limits.waits / 2:
        sentence = f"Storage holds it up: the disk is busy {_percent(seen.disk_busy)} of the time{moved}, and the GPU does {gpu}."
        busy = Evidence("disk_busy", _rounded(seen.disk_busy), "ratio")
        yield case.says(Code.STORAGE, sentence, way, 0.8 * seen.disk_is_full, case.waste, busy, case.gpu_evidence, flow)


def network_bound(case: _Case) -> Iterator[Advice]:
    seen, link = case.seen, case.look.link_bytes_per_s
    even = link is not None or seen.received_unevenness <= case.limits.received_even
    if not case.computes or not case.mostly(seen.waits_for_network) or not even or not seen.gpu < case.limits.gpu_low:
        return
    rate = f"{show_size(int(seen.received_bytes_per_s))}/s" + ("" if link is None else f" of {show_size(int(link))}/s")
    yield case.says(
        Code.NETWORK, f"The network holds it up: {rate} come in, and the GPU does {_percent(seen.gpu)}.",
        "Fetch the data once and keep it on this machine, in your home or in /shared, before the GPU needs it.",
        (0.9 if link is not None else 0.75) * seen.waits_for_network, case.waste,
        Evidence("received", _rounded(seen.received_bytes_per_s), "bytes_per_s", link), case.gpu_evidence,
    )  # fmt: skip


def batch_too_small(case: _Case) -> Iterator[Advice]:
    """By how many multiprocessors work while any does; else by how little power a busy GPU draws."""
    seen, limits = case.seen, case.limits
    pairs = [(look, gpu) for look, gpu in zip(case.look.gpus_of, case.gpus, strict=True) if look.whole]
    if not pairs or len(pairs) < len(case.look.gpus_of) or not seen.gpu_memory < limits.memory_free or case.mostly(seen.starved):
        return
    by_sm = all(gpu.use >= limits.batch_busy and gpu.sm_active < limits.kernels_small * gpu.use for _, gpu in pairs)
    by_power = all(_draws_little(look, gpu, limits) for look, gpu in pairs)
    if not by_sm and not by_power:
        return
    fill = sum(gpu.sm_active / gpu.use if by_sm else gpu.power_w / (look.power_limit_w or math.nan) for look, gpu in pairs) / len(pairs)
    used, free = f"{_percent(fill)} of its {'multiprocessors' if by_sm else 'power'}", _percent(1 - seen.gpu_memory)
    yield case.says(
        Code.BATCH, f"The batch is too small for this GPU: while it works, it uses {used}, and {free} of its memory is free.",
        "Raise the batch size, or ask for a part of a GPU (--gpus 0.5).",
        0.85 if by_sm else 0.65, case.look.gpus * (1 - fill) / 2, Evidence("filled", _rounded(fill), "ratio"),
        Evidence("gpu_memory", _rounded(seen.gpu_memory), "ratio"), case.gpu_evidence,
    )  # fmt: skip


def _draws_little(look: GpuLook, gpu: GpuFigures, limits: Limits) -> bool:
    if look.power_limit_w is None or not math.isnan(gpu.sm_active):
        return False
    return gpu.use >= limits.batch_busy_by_power and gpu.power_w < limits.power_small * look.power_limit_w


def one_thread(case: _Case) -> Iterator[Advice]:
    seen, look = case.seen, case.look
    if not case.computes or look.cpus < 2 or not case.mostly(seen.by_one_thread) or not seen.gpu < case.limits.gpu_low:
        return
    cpus = f"{_figure(seen.cpus)} of its {_figure(look.cpus)} CPUs"
    yield case.says(
        Code.ONE_THREAD, f"The GPU waits for one CPU thread: GPU {_percent(seen.gpu)} while {cpus} work.",
        "Load data in several processes (num_workers), or give the GPU more at once: a larger batch, torch.compile or CUDA graphs.",
        0.75 * seen.by_one_thread, case.waste, case.gpu_evidence, case.cpus_evidence,
    )  # fmt: skip


def throttled(case: _Case) -> Iterator[Advice]:
    for look, gpu in zip(case.look.gpus_of, case.gpus, strict=True):
        if gpu.use >= case.limits.throttled_busy and gpu.throttled_heat >= case.limits.throttled:
            yield _slowed_by_heat(case, look, gpu)
        elif gpu.use >= case.limits.throttled_busy and gpu.throttled_power >= case.limits.throttled:
            yield _held_by_power(case, look, gpu)


def _slowed_by_heat(case: _Case, look: GpuLook, gpu: GpuFigures) -> Advice:
    at = "" if math.isnan(gpu.temperature_c) else f", at {gpu.temperature_c:.0f} °C"
    figures = Evidence("throttled", _rounded(gpu.throttled_heat), "ratio"), Evidence("temperature", _rounded(gpu.temperature_c), "celsius")
    return case.says(
        Code.HEAT, f"GPU {look.index} is slowed down by heat {_percent(gpu.throttled_heat)} of the time{at}.",
        "Nothing is wrong with your program. Tell the admin: it is the fans, dust or the room.", 0.9, 0.2, *figures,
    )  # fmt: skip


def _held_by_power(case: _Case, look: GpuLook, gpu: GpuFigures) -> Advice:
    at = "" if math.isnan(gpu.power_w) else f", at {gpu.power_w:.0f} W"
    power = Evidence("power", _rounded(gpu.power_w), "watts", look.power_limit_w)
    return case.says(
        Code.POWER, f"GPU {look.index} is held back by its power limit {_percent(gpu.throttled_power)} of the time{at}.",
        "Nothing is wrong with your program: it uses all the power there is. Lower precision (bf16, fp8) does more with it.",
        0.9, 0.1, Evidence("throttled", _rounded(gpu.throttled_power), "ratio"), power,
    )  # fmt: skip


RULES: tuple[Callable[[_Case], Iterator[Advice]], ...] = (
    host_memory, finished, memory_held, gpu_unused, spare_gpu, loader_starves, storage_bound, network_bound, batch_too_small, one_thread,
    throttled,
)  # fmt: skip


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %"


def _figure(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _rounded(value: float) -> float:
    return value if math.isnan(value) else round(value, 3) if value < 1000 else round(value)


def _time(pace: Pace, steps: float) -> str:
    return show_duration(pace.length(steps))
