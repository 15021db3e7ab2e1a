"""Fit: can this request sit on this node now? The answer is a Seat, or a Refusal in words."""
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpufairy.core.amounts import show_cpus, show_size
from gpufairy.core.booking import OPEN, node_key
from gpufairy.core.mig_seat import best_cut, instance_on
from gpufairy.core.node import Node, NodeState, Sharing
from gpufairy.core.room import GpuRoom, Room
from gpufairy.core.session import GpuSeat, Request, Seat
from gpufairy.core.share import PARTS, ShareKind, show_parts
from gpufairy.core.sharing import by_mps, seat_words

CPU_ONLY_CPUS_MILLI = 1000  # what a session without GPU gets if it does not say
# Sessions that do not say how many CPUs they want get this part of their GPU's portion of the node, so that
# a box whose GPUs are all taken still has CPUs for a session that needs none.
DEFAULT_PORTION = 7 / 8
GUEST_PART = 8  # an eighth of the usual is the least a guest comes for: what DEFAULT_PORTION leaves of each portion
MOST_NAMED = 3  # GPUs in one refusal


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why not here, not now."""

    node: str
    why: str
    nodes: int = 1  # more: it speaks for so many, of which none is named


@dataclass(frozen=True, slots=True)
class Preference:
    """Of several GPUs of a node on which it fits, which to take."""

    gpu: str = ""  # UUID; empty, or if it does not fit there: where the least is left over
    profiles: Mapping[str, float] = field(default_factory=dict)  # of MIG, how often each was asked for lately; empty: all alike


NO_PREFERENCE = Preference()


def fit(request: Request, room: Room, closed: Mapping[str, str] = OPEN, prefer: Preference = NO_PREFERENCE) -> Seat | Refusal:
    """`closed`: GPUs, by UUID, and hosts, by `node_key`, that are not for this one now, each with why."""
    node = room.node
    if node.state is not NodeState.READY:
        return Refusal(node.name, f"{node.name} is {node.state}" + (f": {node.state_why}" if node.state_why else ""))
    if request.pool not in (None, node.pool):
        return Refusal(node.name, f"{node.name} is not in pool {request.pool}")
    if node.coming_s is not None and request.share.kind is ShareKind.NONE and request.pool is None:
        return Refusal(node.name, f"{node.name} sleeps, and is woken for GPUs alone, or for who names pool {node.pool}")
    if closed and (why := closed.get(node_key(node.name))) is not None:
        return Refusal(node.name, f"{node.name}: {why}")
    gpus = fit_gpus(request, room, closed, prefer)
    if isinstance(gpus, Refusal):
        return with_closed(gpus, request, room, closed) if closed else gpus
    cpus_milli, memory_bytes = needs(request, node, sum(gpu.parts for gpu in gpus))
    if request.preemptible:
        cpus_milli = cpus_milli if request.cpus_milli is not None else what_is_left(cpus_milli, room.cpus_milli)
        memory_bytes = memory_bytes if request.memory_bytes is not None else what_is_left(memory_bytes, room.memory_bytes)
    if room.cpus_milli < cpus_milli:
        return Refusal(node.name, f"{node.name} has {show_cpus(max(0, room.cpus_milli))} CPUs free, {show_cpus(cpus_milli)} asked")
    if room.memory_bytes < memory_bytes:
        return Refusal(node.name, f"{node.name} has {show_size(max(0, room.memory_bytes))} of memory free, {show_size(memory_bytes)} asked")
    return Seat(node.name, cpus_milli, memory_bytes, tuple(gpus))


def seats_together(requests: Sequence[Request], rooms: Mapping[str, Room], closed: Mapping[str, str] = OPEN) -> list[Seat] | None:
    """All or none, each on the first node that has room; the rooms are then less the seats."""
    seats: list[Seat] = []
    for request in requests:
        seat = next((answer for room in rooms.values() if isinstance(answer := fit(request, room, closed), Seat)), None)
        if seat is None:
            return None
        rooms[seat.node].take(seat)
        seats.append(seat)
    return seats


def what_is_left(usual: int, free: int) -> int:
    """A guest that does not say sits beside one who keeps its CPUs and memory: it takes what is left, if that is worth anything."""
    return max(-(-usual // GUEST_PART), min(usual, free))


def needs(request: Request, node: Node, gpu_parts: int) -> tuple[int, int]:
    """CPUs and memory of the seat: as asked, else in proportion to the part of the node's GPUs it gets."""
    if request.cpus_milli is not None and request.memory_bytes is not None:
        return request.cpus_milli, request.memory_bytes
    if gpu_parts and node.gpus:
        portion = gpu_parts / (len(node.gpus) * PARTS) * DEFAULT_PORTION
    else:
        portion = min(1.0, (request.cpus_milli or CPU_ONLY_CPUS_MILLI) / node.cpus_milli) * DEFAULT_PORTION
    default_cpus = portion * node.cpus_milli if gpu_parts else min(CPU_ONLY_CPUS_MILLI, node.cpus_milli)
    cpus_milli = request.cpus_milli if request.cpus_milli is not None else max(1, int(default_cpus))
    memory_bytes = request.memory_bytes if request.memory_bytes is not None else int(portion * node.memory_bytes)
    return cpus_milli, memory_bytes


def fit_gpus(request: Request, room: Room, closed: Mapping[str, str], prefer: Preference) -> list[GpuSeat] | Refusal:
    share = request.share
    if share.kind is ShareKind.NONE:
        return []
    if not room.gpus:
        return Refusal(room.node.name, f"{room.node.name} has no GPU")
    wanted = request.gpu_kind
    fitting_kind = room.gpus if wanted is None else [gpu for gpu in room.gpus if is_kind(gpu.gpu.kind, wanted)]
    if not fitting_kind:
        have = ", ".join(sorted({gpu.gpu.kind for gpu in room.gpus}))
        return Refusal(room.node.name, f"{room.node.name} has {have}, not {request.gpu_kind}")
    if request.on_gpu is not None:
        fitting_kind = [gpu for gpu in fitting_kind if gpu.gpu.uuid == request.on_gpu]
        if not fitting_kind:
            return Refusal(room.node.name, f"{room.node.name} has no GPU {request.on_gpu}")
    if closed:
        shut = fitting_kind
        fitting_kind = [gpu for gpu in shut if gpu.gpu.uuid not in closed]
        if not fitting_kind:
            return not_open(((gpu, closed[gpu.gpu.uuid]) for gpu in shut), room)
    if share.kind is ShareKind.MIG:
        return fit_mig(share.profile, fitting_kind, room, prefer.profiles)
    plain = [gpu for gpu in fitting_kind if gpu.gpu.mig is None]
    if not plain:
        return Refusal(room.node.name, f"every GPU of {room.node.name} is cut by MIG; {share} asked")
    if share.kind is ShareKind.WHOLE:
        return fit_whole(share.whole_gpus, plain, room, request.preemptible)
    preferred = [gpu for gpu in plain if gpu.gpu.uuid == prefer.gpu] if prefer.gpu else []
    answer = fit_part(request, preferred, room) if preferred else None
    return answer if isinstance(answer, list) else fit_part(request, plain, room)


def is_kind(kind: str, wanted: str | None) -> bool:
    """`A100` takes any A100; `A100-40GB` only that one. Compared by whole words."""
    return wanted is None or kind.lower() == wanted.lower() or kind.lower().split("-")[0] == wanted.lower()


def fit_whole(count: int, plain: list[GpuRoom], room: Room, guest: bool) -> list[GpuSeat] | Refusal:
    """A guest may sit in what an idle session lends, but goes there last."""
    free = [gpu for gpu in plain if gpu.is_open(guest)]
    if guest:
        free.sort(key=lambda gpu: not gpu.is_free)
    if len(free) < count:
        return Refusal(room.node.name, f"{room.node.name} has {len(free)} of {len(plain)} GPUs wholly free, {count} asked")
    without_mps = [gpu for gpu in free if not gpu.gpu.mps_stays]
    if len(without_mps) < count:
        return not_open(((gpu, gpu.gpu.mps_stays) for gpu in free), room)
    return [part_of(gpu, PARTS) for gpu in without_mps[:count]]


def fit_part(request: Request, plain: list[GpuRoom], room: Room) -> list[GpuSeat] | Refusal:
    """A fraction goes where the least is left over; many fGPU may come to several whole GPUs."""
    asked = {gpu.gpu.uuid: parts_on(request, gpu) for gpu in plain}
    whole = {parts // PARTS for parts in asked.values() if parts > PARTS and parts % PARTS == 0}
    if whole:
        of_one = [gpu for gpu in plain if asked[gpu.gpu.uuid] <= PARTS]  # there may be larger ones beside them
        answer = fit_part(request, of_one, room) if of_one else None
        return answer if isinstance(answer, list) else fit_whole(min(whole), plain, room, request.preemptible)
    guest = request.preemptible
    fitting = [gpu for gpu in plain if asked[gpu.gpu.uuid] <= gpu.open_parts(guest)]
    if not fitting:
        most = max(gpu.open_parts(guest) for gpu in plain)
        return Refusal(room.node.name, f"{room.node.name} has at most {show_parts(most)} of one GPU free, {request.share} asked")
    open_now = [gpu for gpu in fitting if not closed_to(request, gpu, asked[gpu.gpu.uuid])]
    if not open_now:
        return not_open(((gpu, closed_to(request, gpu, asked[gpu.gpu.uuid])) for gpu in fitting), room)
    same_way = [gpu for gpu in open_now if not gpu.other_way]
    if not same_way:
        return shared_otherwise(open_now, room)
    roomy = [gpu for gpu in same_way if memory_on(request, gpu, asked[gpu.gpu.uuid]) <= gpu.open_memory_bytes(guest)]
    if not roomy:
        return too_little_memory(request, same_way, asked, room)
    tightest = min(roomy, key=lambda gpu: (gpu.open_parts(guest) - asked[gpu.gpu.uuid], gpu.open_memory_bytes(guest), gpu.gpu.index))
    return [part_of(tightest, asked[tightest.gpu.uuid], request.gpu_memory_bytes)]


def closed_to(request: Request, gpu: GpuRoom, parts: int) -> str:
    """Why it cannot start there, in words; empty: it can. Where MPS is not for it, MPS has to go first."""
    if not (gpu.gpu.closed or gpu.gpu.mps_stays):
        return ""
    return gpu.gpu.closed if by_mps(part_of(gpu, parts, request.gpu_memory_bytes)) else gpu.gpu.mps_stays


def not_open(whys: Iterable[tuple[GpuRoom, str]], room: Room) -> Refusal:
    said = [f"{room.node.name} GPU {gpu.gpu.index}: {why}" for gpu, why in whys if why]
    more = f"; and {len(said) - MOST_NAMED} more GPUs" if len(said) > MOST_NAMED else ""
    return Refusal(room.node.name, "; ".join(said[:MOST_NAMED]) + more)


def with_closed(refusal: Refusal, request: Request, room: Room, closed: Mapping[str, str]) -> Refusal:
    """Beside what is full, what is shut: else nobody would understand why a GPU that is empty is not theirs."""
    shut = [gpu for gpu in room.gpus if gpu.gpu.uuid in closed and is_kind(gpu.gpu.kind, request.gpu_kind)]
    if not shut or closed[shut[0].gpu.uuid] in refusal.why:
        return refusal
    more = not_open(((gpu, closed[gpu.gpu.uuid]) for gpu in shut), room)
    return replace(refusal, why=f"{refusal.why}; {more.why}")


def shared_otherwise(fitting: list[GpuRoom], room: Room) -> Refusal:
    """With MPS on a GPU, and in its compute mode, those who came without it would get no context any more; and the other way round."""
    now = fitting[0].gpu.sharing
    before = Sharing.MPS if now is Sharing.TIME else Sharing.TIME
    return Refusal(room.node.name, f"{room.node.name} has GPUs with room, but those on them share by {before}, and {now} is the way now")


def too_little_memory(request: Request, fitting: list[GpuRoom], asked: dict[str, int], room: Room) -> Refusal:
    most = max(fitting, key=lambda gpu: gpu.open_memory_bytes(request.preemptible))
    wanted = show_size(memory_on(request, most, asked[most.gpu.uuid]))
    free = show_size(max(0, most.open_memory_bytes(request.preemptible)))
    return Refusal(room.node.name, f"{room.node.name} has at most {free} of one GPU's memory free, {wanted} asked")


def parts_on(request: Request, gpu: GpuRoom) -> int:
    """What the share comes to on this GPU; rounded down, so that five fifths fit."""
    if request.share.kind is ShareKind.FRACTION:
        return request.share.parts
    return max(1, request.share.parts * PARTS // gpu.gpu.fgpu_parts)


def memory_on(request: Request, gpu: GpuRoom, parts: int) -> int:
    return gpu.gpu.memory_bytes * parts // PARTS if request.gpu_memory_bytes is None else request.gpu_memory_bytes


def part_of(gpu: GpuRoom, parts: int, memory_bytes: int | None = None) -> GpuSeat:
    """`memory_bytes=None`: the same part of the memory as of the GPU."""
    enforced, accounted = seat_words(gpu.gpu, parts)
    taken_bytes = gpu.gpu.memory_bytes * parts // PARTS if memory_bytes is None else memory_bytes
    return GpuSeat(
        gpu.gpu.index, gpu.gpu.uuid, parts, taken_bytes,
        gpu.gpu.kind, gpu.gpu.simulated, enforced=enforced, accounted=accounted,
        memory_parts=None if memory_bytes is None else memory_bytes * PARTS // gpu.gpu.memory_bytes, sharing=gpu.gpu.sharing,
        borrowed=parts > gpu.free_parts or taken_bytes > gpu.free_memory_bytes,
    )  # fmt: skip


def fit_mig(name: str, fitting_kind: list[GpuRoom], room: Room, asked_lately: Mapping[str, float]) -> list[GpuSeat] | Refusal:
    in_mig_mode = [gpu for gpu in fitting_kind if gpu.gpu.mig is not None]
    if not in_mig_mode:
        return Refusal(room.node.name, f"no GPU of {room.node.name} is in MIG mode, {name} asked")
    best = best_cut(name, in_mig_mode, asked_lately)
    if best is None:
        return Refusal(room.node.name, f"{room.node.name} has no room for a {name} on its MIG GPUs")
    return [instance_on(best)]
