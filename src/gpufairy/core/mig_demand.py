"""Automatic mode: which GPU to cut anew for those who wait for MIG profiles that no cut offers now. A pure choice; control acts on it."""
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from gpufairy.core.fit import fit, is_kind
from gpufairy.core.holders import Holder
from gpufairy.core.mig_cut import cut_now
from gpufairy.core.mig_plan import CutNow, CutPlan, plan_cut
from gpufairy.core.node import Gpu, NodeState
from gpufairy.core.room import Room
from gpufairy.core.session import Request, Seat, Session
from gpufairy.core.share import ShareKind


@dataclass(frozen=True, slots=True)
class CutWish:
    node: str
    gpu: str  # its UUID
    wanted: tuple[str, ...]  # the whole mix: what is in use, and what is to come
    serves: tuple[str, ...]  # ids of the sessions that could start then
    plan: CutPlan


def cut_for_waiting(
    rooms: Mapping[str, Room], waiting: Sequence[Session], holders: Mapping[str, Sequence[Holder]], busy: Collection[str] = ()
) -> CutWish | None:
    """`waiting`: in turn. The first of them who can be helped is, with the fewest instances given up; then as many more as fit beside."""
    asking = [session for session in waiting if session.request.share.kind is ShareKind.MIG]
    for session in asking:
        if any(can_sit(session.request, room) for room in rooms.values()):
            continue  # it starts by itself in the next pass
        wishes = [
            wish
            for room in rooms.values()
            for gpu in room.gpus
            if may_be_cut(room, gpu.gpu, session)
            and (wish := _wish(room, gpu.gpu, now_of(gpu.gpu, holders, busy), [session, *asking])) is not None
        ]
        if wishes:
            return min(wishes, key=lambda wish: (len(wish.plan.touched), -len(wish.serves), wish.node, wish.gpu))
    return None


def can_sit(request: Request, room: Room) -> bool:
    return isinstance(fit(request, room), Seat)


def may_be_cut(room: Room, gpu: Gpu, session: Session) -> bool:
    """One without a fixed cut needs none: it is cut when somebody sits down."""
    known = gpu.mig is not None and gpu.mig.profile(session.request.share.profile) is not None
    fixed = gpu.mig_auto and gpu.instances is not None
    return known and fixed and room.node.state is NodeState.READY and is_kind(gpu.kind, session.request.gpu_kind)


def now_of(gpu: Gpu, holders: Mapping[str, Sequence[Holder]], busy: Collection[str]) -> CutNow:
    assert gpu.mig is not None
    return cut_now(gpu, gpu.mig, holders.get(gpu.uuid, ()), busy)


def _wish(room: Room, gpu: Gpu, now: CutNow, asking: Sequence[Session]) -> CutWish | None:
    """`asking`: first the one it would be done for, then all in turn."""
    chosen: list[Session] = []
    best: CutPlan | None = None
    for session in dict.fromkeys(asking):
        plan = _plan_with(now, room, gpu, [*chosen, session])
        if plan is None and not chosen:
            return None
        if plan is not None:
            best, chosen = plan, [*chosen, session]
    if best is None or not best.changes:
        return None
    return CutWish(room.node.name, gpu.uuid, _mix(now, chosen), tuple(session.id for session in chosen), best)


def _mix(now: CutNow, chosen: Sequence[Session]) -> tuple[str, ...]:
    return (*(one.profile for one in now.used if now.table.profile(one.profile)), *(session.request.share.profile for session in chosen))


def _plan_with(now: CutNow, room: Room, gpu: Gpu, chosen: Sequence[Session]) -> CutPlan | None:
    """None: they do not fit beside what is in use, or could not all sit down then: a cut is not all that a session needs."""
    if any(now.table.profile(session.request.share.profile) is None for session in chosen):
        return None
    plan = plan_cut(now, _mix(now, chosen))
    if not plan.fits:
        return None
    after = tuple(one if one.uuid else replace(one, uuid=f"new-{one.start}") for one in plan.after)
    there = room.copy()
    there.gpus = [replace(other, gpu=replace(other.gpu, instances=after)) if other.gpu.uuid == gpu.uuid else other for other in there.gpus]
    for session in chosen:
        seat = fit(session.request, there)
        if not isinstance(seat, Seat):
            return None
        there.take(seat)
    return plan
