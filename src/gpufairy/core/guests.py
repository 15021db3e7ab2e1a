"""Guests: preemptible sessions that sit in what an idle session lends. They leave when it wants that back, and stay when it has left."""
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from gpufairy.core.lifecycle import Phase
from gpufairy.core.preempt import Eviction, is_guest, lost_gpu_seconds
from gpufairy.core.room import GpuRoom, Room
from gpufairy.core.session import Seat, Session


@dataclass(frozen=True, slots=True)
class GuestMoves:
    leave: tuple[Eviction, ...] = ()  # at once: their host is back
    stay: tuple[tuple[Session, Seat], ...] = ()  # with the seat as their own: their host has left


NOBODY_MOVES = GuestMoves()


def guest_moves(holding: Iterable[Session], rooms: Mapping[str, Room], now: datetime) -> GuestMoves:
    """`rooms` are less all seats of `holding`, and are changed here."""
    seated = [session for session in holding if session.seat is not None and session.seat.node in rooms]
    guests = [session for session in seated if session.phase is not Phase.STOPPING and is_guest(session)]
    if not guests:
        return NOBODY_MOVES
    for leaving in seated:
        if leaving.phase is Phase.STOPPING and leaving.seat is not None and is_guest(leaving):
            rooms[leaving.seat.node].give_back(leaving.seat)
    guests.sort(key=lambda one: -lost_gpu_seconds(one, now))  # of several that could stay, who has the most to lose is asked first
    stay = dict(_staying(guests, rooms))
    leave = tuple(_leaving([guest for guest in reversed(guests) if guest.id not in stay], seated, rooms))
    for one in leave:
        stay.pop(one.victim.id, None)
    return GuestMoves(leave, tuple((guest, stay[guest.id]) for guest in guests if guest.id in stay))


def _staying(guests: Iterable[Session], rooms: Mapping[str, Room]) -> Iterator[tuple[str, Seat]]:
    for guest in guests:
        if guest.seat is None:
            continue
        room = rooms[guest.seat.node]
        room.give_back(guest.seat)
        own = settled(guest.seat, room)
        room.take(own or guest.seat)
        if own is not None:
            yield guest.id, own


def _leaving(guests: Iterable[Session], seated: Sequence[Session], rooms: Mapping[str, Room]) -> Iterator[Eviction]:
    """With all of their gang: what is left of one could not go on."""
    gone: set[str] = set()
    for guest in guests:
        if guest.id in gone or not overfull(guest, rooms):
            continue
        host = next((host for host in seated if is_host(host, guest)), None)
        if host is None:
            continue
        for one in (guest, *mates(guest, seated)):
            gone.add(one.id)
            if one.seat is not None:
                rooms[one.seat.node].give_back(one.seat)
            whose = "it borrowed" if is_guest_of(host, one) else f"that {guest.name} borrowed, which started together with it,"
            yield Eviction(one, host, f"the GPU {whose} is wanted back by {host.owner}, who uses it again")


def mates(session: Session, seated: Iterable[Session]) -> list[Session]:
    gang = session.request.gang
    others = [one for one in seated if one.request.gang == gang and one.id != session.id and one.phase is not Phase.STOPPING]
    return others if gang is not None else []


def is_host(host: Session, guest: Session) -> bool:
    """It holds a GPU on which the guest borrows, and does not lend it any more."""
    return not host.is_lent and is_guest_of(host, guest)


def settled(seat: Seat, without: Room) -> Seat | None:
    """The same seat as one of its own, where nobody else holds what it borrowed. `without`: the room less this seat."""
    for part in seat.gpus:
        place = without.place_of(part)
        if part.borrowed and (place is None or not has_room(without.gpus[place], part.parts, part.memory_bytes)):
            return None
    return replace(seat, gpus=tuple(replace(part, borrowed=False) for part in seat.gpus))


def has_room(gpu: GpuRoom, parts: int, memory_bytes: int) -> bool:
    return gpu.free_parts >= parts and gpu.free_memory_bytes >= memory_bytes


def overfull(guest: Session, rooms: Mapping[str, Room]) -> bool:
    """On a GPU where it borrows, those who sit there have more than there is and is lent."""
    if guest.seat is None:
        return False
    room = rooms[guest.seat.node]
    places = [place for part in guest.seat.gpus if part.borrowed and (place := room.place_of(part)) is not None]
    return any(room.gpus[place].open_parts(guest=True) < 0 or room.gpus[place].open_memory_bytes(guest=True) < 0 for place in places)


def is_guest_of(host: Session, other: Session) -> bool:
    """Whether it borrows on a GPU that the host holds."""
    if host.seat is None or other.seat is None or host.id == other.id:
        return False
    held = {part.uuid for part in host.seat.gpus if not part.borrowed}
    return any(part.borrowed and part.uuid in held for part in other.seat.gpus)
