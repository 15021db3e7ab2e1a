"""Values as plain dicts and back, for database columns and for labels on workloads. Never for strangers: that is `wire`.

Reading is lenient towards missing fields (an older row or label), so a default may be added to a value without a migration.
"""
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any

from gpufairy.core.lifecycle import Phase
from gpufairy.core.node import Sharing
from gpufairy.core.session import GpuSeat, IdleStep, Outcome, Request, Seat, Session, SessionKind, Wanted
from gpufairy.core.share import parse_share


def request_to_plain(request: Request) -> dict[str, Any]:
    plain = {f.name: getattr(request, f.name) for f in fields(request)}
    plain["share"] = str(request.share)
    plain["time_limit"] = None if request.time_limit is None else request.time_limit.total_seconds()
    plain["env"] = dict(request.env)
    return {name: value for name, value in plain.items() if value not in (None, (), {}) and value is not False}


def request_from_plain(plain: dict[str, Any]) -> Request:
    limit_s = plain.get("time_limit")
    known = {f.name for f in fields(Request)} & plain.keys()
    values: dict[str, Any] = {name: tuple(plain[name]) if isinstance(plain[name], list) else plain[name] for name in known}
    values["share"] = parse_share(plain["share"])
    values["time_limit"] = None if limit_s is None else timedelta(seconds=limit_s)
    values["env"] = tuple(plain.get("env", {}).items())
    return Request(**values)


def seat_to_plain(seat: Seat) -> dict[str, Any]:
    plain = {f.name: getattr(seat, f.name) for f in fields(seat)}
    plain["gpus"] = [{f.name: getattr(gpu, f.name) for f in fields(gpu)} for gpu in seat.gpus]
    return plain


def seat_from_plain(plain: dict[str, Any]) -> Seat:
    known = {f.name for f in fields(Seat)} & plain.keys()
    return Seat(**{**{name: plain[name] for name in known}, "gpus": tuple(_gpu_from_plain(gpu) for gpu in plain["gpus"])})


def _gpu_from_plain(plain: dict[str, Any]) -> GpuSeat:
    known = {f.name for f in fields(GpuSeat)} & plain.keys()
    values: dict[str, Any] = {name: tuple(plain[name]) if isinstance(plain[name], list) else plain[name] for name in known}
    if "sharing" in values:
        values["sharing"] = Sharing(values["sharing"])
    return GpuSeat(**values)


def session_to_plain(session: Session) -> dict[str, Any]:
    plain = {f.name: getattr(session, f.name) for f in fields(session)}
    plain["request"] = request_to_plain(session.request)
    plain["seat"] = None if session.seat is None else seat_to_plain(session.seat)
    for name in TIMES:
        plain[name] = None if plain[name] is None else plain[name].isoformat()
    return plain


def session_from_plain(plain: dict[str, Any]) -> Session:
    known = {f.name for f in fields(Session)} & plain.keys()
    values = {name: plain[name] for name in known}
    values["request"] = request_from_plain(plain["request"])
    values["seat"] = None if plain.get("seat") is None else seat_from_plain(plain["seat"])
    for name in READERS.keys() & known:
        values[name] = None if plain[name] is None else READERS[name](plain[name])
    return Session(**values)


TIMES = ("submitted_at", "since", "placed_at", "started_at", "ended_at", "idle_since", "kept_until")
READERS: dict[str, Any] = {
    **{"kind": SessionKind, "phase": Phase, "wanted": Wanted, "outcome": Outcome, "stop_outcome": Outcome, "idle_step": IdleStep},
    **dict.fromkeys(TIMES, datetime.fromisoformat),
}
