"""The labelled set: sessions as they happen in labs, made from a seed, each with what should be said of it. Labels come from what was
made to happen, never from the rules: a loader that keeps the GPU waiting a third of its time is one that starves it, whatever is read.

Every story is drawn anew from wide ranges, noise and gaps included. The traps are those in which nothing must be said.
"""
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from gpufairy.core.insight import Code, GpuLook, Pace, SessionLook

PACE = Pace()
BACK = PACE.back
GIB = 2**30
Chance = np.random.Generator


@dataclass(frozen=True)
class Labelled:
    story: str
    look: SessionLook
    wanted: frozenset[Code]
    may: frozenset[Code] = frozenset()  # neither right nor wrong: it follows from what was made to happen
    pace: Pace = PACE


@dataclass
class Draft:
    """A session that is read in full; stories change it."""

    chance: Chance
    age: int
    cpus: float = 8.0
    memory_bytes: int = 64 * GIB
    gpu_count: int = 1
    is_batch: bool = True
    own: dict[str, np.ndarray] = field(default_factory=dict)
    node: dict[str, np.ndarray] = field(default_factory=dict)
    gpus: list[dict[str, np.ndarray]] = field(default_factory=list)
    has_sm: bool = True
    link: float | None = 1.25e9

    def noisy(self, mean: float | np.ndarray, spread: float, low: float = 0.0, high: float = np.inf) -> np.ndarray:
        """Around a mean, each value like the one before."""
        steps, slow = self.chance.normal(0, 1, BACK), np.empty(BACK)
        value = 0.0
        for place, step in enumerate(steps):
            value = slow[place] = 0.6 * value + 0.8 * step
        return np.clip(np.asarray(mean) * (1 + spread * slow), low, high)

    def uses(self, gpu: float | np.ndarray, cpu_part: float | np.ndarray, spread: float = 0.08) -> "Draft":
        use = self.noisy(gpu, spread, 0, 1)
        self.own["gpus_held"], self.own["gpus_unknown"] = np.full(BACK, float(self.gpu_count)), np.zeros(BACK)
        self.own["gpus_used"] = use * self.gpu_count
        self.own["cpus"] = self.noisy(cpu_part, spread / 2, 0, 1.02) * self.cpus
        self.own["memory_bytes"] = self.noisy(self.chance.uniform(0.05, 0.6), 0.01) * self.memory_bytes
        self.own["gpu_memory_bytes"] = np.full(BACK, self.chance.uniform(0.4, 0.95) * 40 * GIB * self.gpu_count)
        self.moves(self.chance.uniform(0, 30e6), self.chance.uniform(0, 0.05))
        self.gpus = [{"utilisation": use.copy()} for _ in range(self.gpu_count)]
        filled = self.chance.uniform(0.5, 0.95)
        for one in self.gpus:
            one["power_w"] = 80 + 300 * use * filled
            one["throttled_power"], one["throttled_heat"] = np.zeros(BACK), np.zeros(BACK)
            one["temperature_c"] = 40 + 35 * use
            if self.has_sm:
                one["sm_active"] = use * filled
        return self

    def moves(self, rate: float | np.ndarray, waited: float | np.ndarray) -> None:
        self.own["read_bytes_per_s"] = self.noisy(rate, 0.3)
        self.own["written_bytes_per_s"] = self.noisy(self.chance.uniform(0, 2e5), 0.5)
        self.own["io_waited"] = self.noisy(waited, 0.2, 0, 1)
        self.own["received_bytes_per_s"], self.own["sent_bytes_per_s"] = (self.noisy(self.chance.uniform(0, 2e5), 0.8) for _ in range(2))
        others = self.chance.uniform(0, 1) * self.noisy(40e6, 0.5)
        self.node["read_bytes_per_s"] = self.own["read_bytes_per_s"] + others
        self.node["written_bytes_per_s"] = self.own["written_bytes_per_s"]
        self.node["disk_busy"] = np.clip(self.own["io_waited"] + others / 400e6, 0, 1)

    def look(self, name: str) -> SessionLook:
        before = BACK - min(BACK, self.age)
        for columns in (self.own, *self.gpus):
            for values in columns.values():
                values[:before] = np.nan
        gpus = tuple(GpuLook(index, columns, power_limit_w=400.0) for index, columns in enumerate(self.gpus))
        return SessionLook(
            name, self.is_batch, float(self.gpu_count), 40 * GIB * self.gpu_count, self.cpus, self.memory_bytes, self.age,
            self.own, self.node, gpus, node_cpus=64, link_bytes_per_s=self.link,
        )  # fmt: skip


Told = frozenset[Code]
Story = Callable[[Chance], tuple[Draft, Told, Told]]
NOTHING: Told = frozenset()


def a_draft(chance: Chance, age: int | None = None, **fields) -> Draft:
    old = int(chance.integers(20, 500)) if age is None else age
    return Draft(chance, old, cpus=float(chance.choice([2, 4, 8, 16])), has_sm=chance.random() < 0.5, **fields)


def only(code: Code, draft: Draft, *may: Code) -> tuple[Draft, Told, Told]:
    return draft, frozenset((code,)), frozenset(may)


def silent(draft: Draft, *may: Code) -> tuple[Draft, Told, Told]:
    return draft, NOTHING, frozenset(may)


# What should be told.


def starved(chance: Chance) -> tuple[Draft, Told, Told]:
    """The loader makes so much of what the GPU could take; two thirds and less is starving."""
    feeds = chance.uniform(0.08, 0.62)
    return only(Code.LOADER, a_draft(chance, int(chance.integers(16, 500))).uses(feeds * chance.uniform(0.92, 1), chance.uniform(0.9, 1.0)))


def one_loader_thread(chance: Chance) -> tuple[Draft, Told, Told]:
    draft = a_draft(chance)
    draft.cpus = float(chance.choice([4, 8, 16]))
    return only(Code.ONE_THREAD, draft.uses(chance.uniform(0.06, 0.5), chance.uniform(0.88, 1.15) / draft.cpus))


def slow_storage(chance: Chance) -> tuple[Draft, Told, Told]:
    draft = a_draft(chance).uses(chance.uniform(0.05, 0.5), chance.uniform(0.05, 0.55))
    rate, waited = float(np.exp(chance.uniform(np.log(1e6), np.log(800e6)))), chance.uniform(0.4, 0.95)
    draft.moves(rate, waited)
    if chance.random() < 0.3:  # a kernel that does not tell how long its processes waited
        draft.own["io_waited"][:] = np.nan
        draft.node["disk_busy"] = draft.noisy(chance.uniform(0.9, 0.99), 0.02, 0, 1)
        draft.node["read_bytes_per_s"] = draft.own["read_bytes_per_s"] * chance.uniform(1, 1.5)
    return only(Code.STORAGE, draft, Code.ONE_THREAD)


def slow_network(chance: Chance) -> tuple[Draft, Told, Told]:
    draft = a_draft(chance).uses(chance.uniform(0.05, 0.45), chance.uniform(0.05, 0.5))
    link = float(chance.choice([1.25e8, 3.1e8, 1.25e9]))
    draft.link = link if chance.random() < 0.6 else None
    draft.own["received_bytes_per_s"] = draft.noisy(link * chance.uniform(0.75, 0.97), 0.04)
    return only(Code.NETWORK, draft, Code.ONE_THREAD)


def held_and_idle(chance: Chance) -> tuple[Draft, Told, Told]:
    draft = a_draft(chance, int(chance.integers(40, 400)), is_batch=False).uses(0.0, chance.uniform(0, 0.02))
    draft.own["gpu_memory_bytes"][:] = chance.uniform(0.12, 0.95) * 40 * GIB
    return only(Code.MEMORY_HELD, draft)


def cpu_alone(chance: Chance) -> tuple[Draft, Told, Told]:
    draft = a_draft(chance, int(chance.integers(40, 400))).uses(0.0, 0.5)
    draft.own["cpus"] = draft.noisy(chance.uniform(0.7, draft.cpus), 0.05)
    draft.own["gpu_memory_bytes"][:] = chance.choice([0.0, 0.5 * GIB])
    return only(Code.GPU_UNUSED, draft)


def one_of_two(chance: Chance) -> tuple[Draft, Told, Told]:
    draft = a_draft(chance, int(chance.integers(40, 400)), gpu_count=int(chance.choice([2, 4])))
    draft.uses(chance.uniform(0.6, 0.98), chance.uniform(0.1, 0.7))
    unused = int(chance.integers(1, draft.gpu_count))
    for columns in draft.gpus[-unused:]:
        for name in columns:
            columns[name] = np.zeros(BACK)
    draft.own["gpus_used"] *= (draft.gpu_count - unused) / draft.gpu_count
    return only(Code.SPARE_GPU, draft, Code.BATCH, Code.ONE_THREAD)


def small_batch(chance: Chance) -> tuple[Draft, Told, Told]:
    draft = a_draft(chance)
    by_sm = draft.has_sm
    draft.uses(chance.uniform(0.5, 1.0) if by_sm else chance.uniform(0.88, 1.0), chance.uniform(0.9, 1.2) / draft.cpus, 0.03)
    draft.own["gpu_memory_bytes"][:] = chance.uniform(0.02, 0.33) * 40 * GIB
    (gpu,) = draft.gpus
    if by_sm:
        gpu["sm_active"] = gpu["utilisation"] * draft.noisy(chance.uniform(0.03, 0.3), 0.05)
    gpu["power_w"] = draft.noisy(chance.uniform(75, 135), 0.03)
    return only(Code.BATCH, draft, Code.ONE_THREAD)


def heat(chance: Chance) -> tuple[Draft, Told, Told]:
    draft = a_draft(chance).uses(chance.uniform(0.7, 1.0), chance.uniform(0.1, 0.6))
    draft.gpus[0]["throttled_heat"] = (chance.random(BACK) < chance.uniform(0.6, 1.0)).astype(float)
    draft.gpus[0]["temperature_c"] = draft.noisy(88, 0.01)
    return only(Code.HEAT, draft)


def power(chance: Chance) -> tuple[Draft, Told, Told]:
    draft = a_draft(chance).uses(chance.uniform(0.85, 1.0), chance.uniform(0.1, 0.6))
    draft.gpus[0]["throttled_power"] = (chance.random(BACK) < chance.uniform(0.6, 1.0)).astype(float)
    draft.gpus[0]["power_w"] = draft.noisy(392, 0.01)
    return only(Code.POWER, draft)


def memory_nearly_full(chance: Chance) -> tuple[Draft, Told, Told]:
    draft = a_draft(chance).uses(chance.uniform(0.6, 1.0), chance.uniform(0.1, 0.7))
    draft.memory_bytes = int(chance.choice([16, 64, 256])) * GIB
    end, climb = chance.uniform(0.94, 0.995), chance.integers(0, 120)
    rise = np.clip(np.linspace(-climb / 60, 0, BACK) * 0.5 + 1, 0.3, 1) if climb else np.ones(BACK)
    draft.own["memory_bytes"] = draft.noisy(end * rise, 0.003, 0, 1) * draft.memory_bytes
    draft.own["memory_bytes"][-8:] = end * draft.memory_bytes
    return only(Code.HOST_MEMORY, draft)


def done_and_not_ended(chance: Chance) -> tuple[Draft, Told, Told]:
    since = int(chance.integers(17, 150))
    draft = a_draft(chance, since + int(chance.integers(30, 300))).uses(chance.uniform(0.4, 1.0), chance.uniform(0.1, 0.6))
    stop(draft, since)
    return only(Code.FINISHED, draft, Code.MEMORY_HELD)


def stop(draft: Draft, since: int) -> None:
    for name in ("gpus_used", "read_bytes_per_s", "written_bytes_per_s", "io_waited", "received_bytes_per_s", "sent_bytes_per_s"):
        draft.own[name][-since:] = 0.0
    draft.own["cpus"][-since:] = draft.chance.uniform(0, 0.05)
    for columns in draft.gpus:
        for name in columns:
            columns[name][-since:] = 0.0


# Traps: nothing is to be told.


def healthy(chance: Chance) -> tuple[Draft, Told, Told]:
    draft = a_draft(chance).uses(chance.uniform(0.65, 1.0), chance.uniform(0.05, 0.8))
    return silent(draft)


def balanced(chance: Chance) -> tuple[Draft, Told, Told]:
    """Its CPUs are full, and the GPU has all that it can take."""
    return silent(a_draft(chance).uses(chance.uniform(0.75, 1.0), chance.uniform(0.88, 1.0)))


def warming_up(chance: Chance) -> tuple[Draft, Told, Told]:
    """Unpacks, compiles, loads: CPUs full, the GPU touched now and then; then it trains."""
    age, loads = int(chance.integers(12, 60)), int(chance.integers(2, 10))
    gpu, cpu = np.full(BACK, chance.uniform(0.7, 1.0)), np.full(BACK, chance.uniform(0.2, 0.7))
    begin = BACK - min(BACK, age)
    gpu[begin : begin + loads], cpu[begin : begin + loads] = chance.uniform(0, 0.1), 0.97
    return silent(a_draft(chance, age).uses(gpu, cpu))


def still_loading(chance: Chance) -> tuple[Draft, Told, Told]:
    """Minutes old, and nothing has begun yet."""
    draft = a_draft(chance, int(chance.integers(2, 14))).uses(chance.uniform(0, 0.02), chance.uniform(0.3, 1.0))
    draft.own["gpu_memory_bytes"][:] = chance.uniform(0, 0.9) * 40 * GIB
    return silent(draft)


def evaluates(chance: Chance) -> tuple[Draft, Told, Told]:
    """Trains, then evaluates on its CPUs, in turns. The newest may be either."""
    train, evaluate = int(chance.integers(6, 40)), int(chance.integers(2, 9))
    turn = (np.arange(BACK) + int(chance.integers(0, train + evaluate))) % (train + evaluate) < evaluate
    gpu = np.where(turn, chance.uniform(0.02, 0.3), chance.uniform(0.75, 1.0))
    return silent(a_draft(chance).uses(gpu, np.where(turn, 0.97, chance.uniform(0.2, 0.7))))


def writes_checkpoints(chance: Chance) -> tuple[Draft, Told, Told]:
    every, long = int(chance.integers(10, 40)), int(chance.integers(1, 4))
    turn = (np.arange(BACK) + int(chance.integers(0, every))) % every < long
    draft = a_draft(chance).uses(np.where(turn, 0.05, chance.uniform(0.75, 1.0)), chance.uniform(0.1, 0.6))
    draft.moves(np.where(turn, 400e6, 5e6), np.where(turn, 0.8, 0.02))
    return silent(draft)


def short_job(chance: Chance) -> tuple[Draft, Told, Told]:
    story = (starved, slow_storage, slow_network, one_loader_thread, small_batch)[int(chance.integers(0, 5))]
    draft, _, _ = story(chance)
    draft.age = int(chance.integers(1, 11))
    return silent(draft)


def thinks(chance: Chance) -> tuple[Draft, Told, Told]:
    """At a notebook: a cell runs, and then nothing for a while."""
    pause = int(chance.integers(3, 14))
    turn = (np.arange(BACK) + int(chance.integers(0, pause + 3))) % (pause + 3) < 3
    draft = a_draft(chance, is_batch=False).uses(np.where(turn, chance.uniform(0.2, 0.9), 0.0), np.where(turn, 0.3, 0.005))
    return silent(draft)


def serves(chance: Chance) -> tuple[Draft, Told, Told]:
    """Answers requests, of which there are few."""
    draft = a_draft(chance, is_batch=False).uses(chance.uniform(0.05, 0.4), 0.05, 0.4)
    draft.own["cpus"] = draft.noisy(chance.uniform(0.05, 0.55), 0.4)
    return silent(draft, Code.BATCH)


def serves_and_spins(chance: Chance) -> tuple[Draft, Told, Told]:
    """The same, by a program that asks for work in a loop and never rests: by its readings it looks like one thread that is too slow."""
    draft = a_draft(chance, is_batch=False).uses(chance.uniform(0.05, 0.4), 0.3, 0.2)
    draft.own["cpus"] = draft.noisy(1.0, 0.01)
    return silent(draft, Code.BATCH)


def missing(chance: Chance) -> tuple[Draft, Told, Told]:
    """What would have to be told cannot be known."""
    story, columns = (
        (starved, ("gpus_used",)), (starved, ("cpus",)), (slow_storage, ("cpus",)), (held_and_idle, ("gpus_used",)),
        (slow_network, ("received_bytes_per_s",)), (memory_nearly_full, ("memory_bytes",)), (done_and_not_ended, ("cpus",)),
        (held_and_idle, ("gpu_memory_bytes",)), (cpu_alone, ("gpus_used",)),
    )[int(chance.integers(0, 9))]  # fmt: skip
    draft, _, may = story(chance)
    draft.is_batch = False
    for name in columns:
        draft.own[name][:] = np.nan
    return draft, NOTHING, may - {Code.MEMORY_HELD}


def mostly_missing(chance: Chance) -> tuple[Draft, Told, Told]:
    """The driver was silent for half of the time."""
    story = (starved, slow_storage, held_and_idle, cpu_alone)[int(chance.integers(0, 4))]
    draft, _, may = story(chance)
    draft.is_batch = False
    gaps = chance.random(BACK) < chance.uniform(0.5, 0.9)
    draft.own["gpus_unknown"][gaps] = float(draft.gpu_count)
    return draft, NOTHING, may


def mended(chance: Chance) -> tuple[Draft, Told, Told]:
    """It was starved until some minutes ago."""
    since = int(chance.integers(5, 12))
    fed = np.arange(BACK) >= BACK - since
    return silent(a_draft(chance, 120).uses(np.where(fed, 0.93, 0.25), np.where(fed, 0.6, 0.98)))


def takes_turns(chance: Chance) -> tuple[Draft, Told, Told]:
    """Two GPUs, one after the other."""
    draft = a_draft(chance, gpu_count=2).uses(0.45, 0.3)
    turn = (np.arange(BACK) // int(chance.integers(2, 8))) % 2 == 0
    for place, columns in enumerate(draft.gpus):
        columns["utilisation"] = np.where(turn == bool(place), 0.9, 0.0) * np.ones(BACK)
    return silent(draft, Code.ONE_THREAD)


def fetches_first(chance: Chance) -> tuple[Draft, Told, Told]:
    """Downloads its data before anything else: the GPU has nothing to do yet, nor has its memory."""
    draft = a_draft(chance, int(chance.integers(5, 60))).uses(0.0, chance.uniform(0.01, 0.3) / 16)
    draft.own["gpu_memory_bytes"][:] = 0.0
    draft.own["received_bytes_per_s"] = draft.noisy(chance.uniform(20e6, 900e6), 0.1)
    return silent(draft)


def warm_and_fine(chance: Chance) -> tuple[Draft, Told, Told]:
    """Held back for moments, as every GPU at full power is."""
    draft = a_draft(chance).uses(chance.uniform(0.7, 1.0), chance.uniform(0.1, 0.6))
    name = "throttled_heat" if chance.random() < 0.5 else "throttled_power"
    draft.gpus[0][name] = (chance.random(BACK) < chance.uniform(0.0, 0.35)).astype(float)
    return silent(draft)


def memory_well_filled(chance: Chance) -> tuple[Draft, Told, Told]:
    """Much of it, for long, and it stays; or nearly all of it for one moment."""
    draft = a_draft(chance).uses(chance.uniform(0.65, 1.0), chance.uniform(0.1, 0.7))
    draft.own["memory_bytes"] = draft.noisy(chance.uniform(0.7, 0.88), 0.005) * draft.memory_bytes
    draft.own["memory_bytes"][-int(chance.integers(1, 30))] = 0.97 * draft.memory_bytes
    return silent(draft)


def rests_between(chance: Chance) -> tuple[Draft, Told, Told]:
    """A job that waits some minutes for the next piece of work."""
    rest = int(chance.integers(3, 13))
    draft = a_draft(chance, 150).uses(chance.uniform(0.5, 1.0), 0.4)
    stop(draft, rest)
    return silent(draft)


def stores_at_the_end(chance: Chance) -> tuple[Draft, Told, Told]:
    """The GPU is done; what it made is written or sent, which takes its time."""
    draft = a_draft(chance, 150).uses(chance.uniform(0.5, 1.0), 0.4)
    since = int(chance.integers(16, 26))
    stop(draft, since)
    name = "written_bytes_per_s" if chance.random() < 0.5 else "sent_bytes_per_s"
    draft.own[name][-since:] = draft.noisy(chance.uniform(5e6, 300e6), 0.2)[-since:]
    draft.own["gpu_memory_bytes"][-since:] = 0.0
    return silent(draft)


def neighbour_on_disk(chance: Chance) -> tuple[Draft, Told, Told]:
    """The disk is full of another's work; this one hardly reads, and answers few requests."""
    draft = a_draft(chance).uses(chance.uniform(0.1, 0.95), 0.05, 0.2)
    draft.own["cpus"] = draft.noisy(chance.uniform(0.05, 0.5), 0.2)
    draft.moves(chance.uniform(0, 3e6), chance.uniform(0, 0.15))
    draft.node["read_bytes_per_s"], draft.node["disk_busy"] = draft.noisy(500e6, 0.1), draft.noisy(0.97, 0.01, 0, 1)
    return silent(draft, Code.BATCH)


TRUE: Mapping[str, Story] = {
    story.__name__: story
    for story in (
        starved, one_loader_thread, slow_storage, slow_network, held_and_idle, cpu_alone, one_of_two, small_batch, heat, power,
        memory_nearly_full, done_and_not_ended,
    )
}  # fmt: skip
TRAPS: Mapping[str, Story] = {
    story.__name__: story
    for story in (
        healthy, balanced, warming_up, still_loading, evaluates, writes_checkpoints, short_job, thinks, serves, missing, mostly_missing,
        mended, takes_turns, fetches_first, warm_and_fine, memory_well_filled, rests_between, stores_at_the_end,
        neighbour_on_disk,
    )
}  # fmt: skip
RARE: Mapping[str, Story] = {"serves_and_spins": serves_and_spins}  # one for ten of the others: so seldom are they


def labelled(seed: int, each: int) -> Iterator[Labelled]:
    """So many of every story; of the traps as well."""
    chance = np.random.default_rng(seed)
    for stories, count in ((TRUE, each), (TRAPS, each), (RARE, max(1, each // 10))):
        for name, story in stories.items():
            for number in range(count):
                draft, wanted, may = story(chance)
                yield Labelled(name, with_gaps(draft.look(f"{name}-{number}"), chance), wanted, may)


def with_gaps(look: SessionLook, chance: Chance) -> SessionLook:
    """A report is lost now and then, and with it all that it said."""
    lost = chance.random(BACK) < chance.choice([0.0, 0.02, 0.08])
    gone = {name: np.where(lost, np.nan, values) for name, values in look.own.items()}
    return replace(look, own=gone)


CHOSEN_ON, JUDGED_ON = 20261115, 20261116  # seeds of the two halves
