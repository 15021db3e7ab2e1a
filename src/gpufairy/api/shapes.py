"""How things read as JSON: the words of surface.md, and nothing of our insides."""
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from gpufairy.control.gallery import Offer
from gpufairy.core.explain import Wait, why_now
from gpufairy.core.holders import Holder
from gpufairy.core.image import ImageRules, MadeImage, image_name
from gpufairy.core.lifecycle import Phase, state_word
from gpufairy.core.node import Gpu, Node
from gpufairy.core.people import Key, Token, User
from gpufairy.core.room import GpuRoom, Room
from gpufairy.core.session import GpuSeat, Request, Seat, Session
from gpufairy.core.share import PARTS
from gpufairy.core.sharing import MEMORY, SHARED_FAULTS, SM, by_mps, sharing_of
from gpufairy.core.steps import Event, is_deed


def session_shape(session: Session, wait: Wait | None = None, *, reader: str) -> dict[str, Any]:
    """`wait` is told for those who wait; it says more than the last thing written. `reader`: the user who is shown it."""
    waits = wait is not None and session.phase is Phase.QUEUED
    return {
        "id": session.id,
        "name": session.name,
        "owner": session.owner,
        "team": session.team,
        "kind": session.kind,
        "state": session.state,
        "outcome": session.outcome,
        "exit_code": session.exit_code,
        "why": why_now(session, wait),
        "request": request_shape(session.request, reads_values=reader == session.owner),
        "seat": None if session.seat is None else seat_shape(session.seat),
        "place": wait.place if waits and wait else None,
        "forecast_start": moment(wait.forecast_start) if waits and wait else None,
        "forecast_low": moment(wait.forecast_low) if waits and wait else None,
        "forecast_high": moment(wait.forecast_high) if waits and wait else None,
        "submitted_at": moment(session.submitted_at),
        "started_at": moment(session.started_at),
        "ended_at": moment(session.ended_at),
        "attempt": session.attempt,
        "priority": session.priority,
        "revision": session.revision,
        "ends_at": moment(session.expected_end),
        "idle": {"step": session.idle_step or None, "since": moment(session.idle_since), "kept_until": moment(session.kept_until)},
        "preempted": session.preempted,
    }


def request_shape(request: Request, *, reads_values: bool) -> dict[str, Any]:
    """People put keys and passwords into variables: their values are shown to the owner alone, to others, admins among them, as null."""
    return {
        "gpus": str(request.share),
        "gpu_kind": request.gpu_kind,
        "gpu_memory_bytes": request.gpu_memory_bytes,
        "cpus": None if request.cpus_milli is None else number(request.cpus_milli / 1000),
        "memory_bytes": request.memory_bytes,
        "image": request.image,
        "command": list(request.command),
        "time_s": None if request.time_limit is None else number(request.time_limit.total_seconds()),
        "env": {name: value if reads_values else None for name, value in request.env},
        "mounts": list(request.mounts),
        "ports": list(request.ports),
        "pool": request.pool,
        "workdir": request.workdir,
        "retry": request.retries,
        "after": list(request.after),
        "preemptible": request.preemptible,
        "together": request.gang_size or None,
    }


def seat_shape(seat: Seat) -> dict[str, Any]:
    return {
        "node": seat.node,
        "cpus": number(seat.cpus_milli / 1000),
        "memory_bytes": seat.memory_bytes,
        "gpu_equivalents": number(seat.gpu_parts / PARTS),
        "gpus": [gpu_seat_shape(gpu) for gpu in seat.gpus],
    }


def gpu_seat_shape(gpu: GpuSeat) -> dict[str, Any]:
    return {
        "index": gpu.index,
        "uuid": gpu.uuid,
        "kind": gpu.kind,
        "share": number(gpu.parts / PARTS),
        "memory_bytes": gpu.memory_bytes,
        "profile": gpu.profile or None,
        "instance_uuid": gpu.instance_uuid or None,
        "simulated": gpu.simulated,
        "sharing": gpu.sharing,
        "enforced": list(gpu.enforced),
        "accounted": list(gpu.accounted),
        "note": SHARED_FAULTS if by_mps(gpu) else None,
    }


def wait_shape(session: Session, wait: Wait, waiting: int, *, reader: str) -> dict[str, Any]:
    return {
        "session": session_shape(session, wait, reader=reader),
        "summary": wait.summary,
        "place": wait.place,
        "of": waiting,
        "forecast_start": moment(wait.forecast_start),
        "forecast_low": moment(wait.forecast_low),
        "forecast_high": moment(wait.forecast_high),
        "forecast_why": wait.forecast_why,
        "own_time": wait.own_time or None,
        "nodes": [{"node": refusal.node, "refusal": refusal.why} for refusal in wait.refusals if refusal.node],
        "more_nodes": wait.more_nodes,
        "next": wait.next_step,
        "helps": list(wait.helps),
    }


def node_shape(node: Node, room: Room, gpus: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": node.name,
        "state": node.state,
        "why": node.state_why,
        "pool": node.pool,
        "runs_sessions": True,
        "cpus": number(node.cpus_milli / 1000),
        "memory_bytes": node.memory_bytes,
        "free": {
            "cpus": number(max(0, room.cpus_milli) / 1000),
            "memory_bytes": max(0, room.memory_bytes),
            "gpus": number(sum(gpu.free_parts for gpu in room.gpus) / PARTS),
        },
        "gpus": gpus,
    }


def gpu_shape(room: GpuRoom, holders: list[Holder], names_shown: Callable[[str], bool]) -> dict[str, Any]:
    """`names_shown`: of which owners the caller may know the sessions' names."""
    gpu: Gpu = room.gpu
    enforced = gpu.held_to
    return {
        "index": gpu.index,
        "uuid": gpu.uuid,
        "kind": gpu.kind,
        "memory_bytes": gpu.memory_bytes,
        "simulated": gpu.simulated,
        "fgpu": number(gpu.fgpu_parts / PARTS),
        "mig": gpu.mig is not None,
        "instances": None if gpu.instances is None else [{"profile": i.profile, "start": i.start, "size": i.size} for i in gpu.instances],
        "free_share": number(room.free_parts / PARTS),
        "free_memory_bytes": gpu.memory_bytes * room.free_parts // PARTS if gpu.mig is not None else room.free_memory_bytes,
        "holders": [holder_shape(holder, names_shown(holder.owner)) for holder in holders],
        "enforced": list(enforced),
        "accounted": [what for what in (MEMORY, SM) if what not in enforced],
        "sharing": sharing_of(gpu),
    }


def holder_shape(holder: Holder, name_shown: bool) -> dict[str, Any]:
    """Who holds a GPU is everybody's business; what they call their work is not."""
    name = holder.session if name_shown else None
    return {"session": name, "owner": holder.owner, "share": number(holder.gpu.parts / PARTS), "profile": holder.gpu.profile or None}


def event_shape(event: Event) -> dict[str, Any]:
    return {
        "number": event.number, "at": moment(event.at), "what": event.what,
        "session": event.name if event.owner else None, "id": event.session_id if event.owner else None, "owner": event.owner or None,
        "state": state_word(event.phase) if event.owner else None, "why": event.why,
        "gpu": None if event.owner or is_deed(event) else {"uuid": event.session_id, "name": event.name},
        "about": event.session_id if is_deed(event) else None,
        "attempt": event.attempt, "actor": event.actor or None,
    }  # fmt: skip


def user_shape(user: User) -> dict[str, Any]:
    what = {"name": user.name, "role": user.role, "team": user.team, "share": number(user.share), "disabled": user.disabled}
    return {**what, "created_at": moment(user.created_at)}


def token_shape(token: Token) -> dict[str, Any]:
    times = {"created_at": moment(token.created_at), "expires_at": moment(token.expires_at)}
    return {"id": token.id, "user": token.user, "label": token.label, "scope": token.scope, **times}


def key_shape(key: Key) -> dict[str, Any]:
    return {"fingerprint": key.fingerprint, "user": key.user, "key": key.text, "comment": key.comment, "added_at": moment(key.added_at)}


def offer_shape(offer: Offer, rules: ImageRules) -> dict[str, Any]:
    image = offer.image
    return {
        "name": image.name, "id": image.id, "size_bytes": image.size_bytes, "created_at": moment(image.created_at), "cuda": image.cuda,
        "last_used_at": moment(offer.used_at), "default": image.name == image_name(rules.default),
        "root_inside": rules.root_inside(image.name), "allowed": offer.refusal is None, "why_not": offer.refusal,
        "made": None if offer.made is None else made_image_shape(offer.made),
    }  # fmt: skip


def made_image_shape(made: MadeImage) -> dict[str, Any]:
    return {
        "name": made.name, "id": made.image_id, "owner": made.owner, "made_from": made.made_from, "session": made.session_name,
        "size_bytes": made.size_bytes, "made_at": moment(made.made_at), "state": made.state, "packages": list(made.packages),
        "decided_by": made.decided_by,
    }  # fmt: skip


def moment(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def number(value: float) -> float | int:
    """4 rather than 4.0; sixths of a GPU to six places."""
    return int(value) if value == int(value) else round(value, 6)
