"""Counted GPUs: of some nodes a device plugin tells how many GPUs there are, and chooses itself which one a session is given.

Such a GPU is a place (`kube:gpu01/gpu/0`). Which card is at which place is known by whose processes are on it; while nobody's are, one is
as good as the other. So what a node's agent reads of its cards can be told of the places that sessions hold.
"""
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from gpufairy.core.node_sample import NodeSample, ProcessReading
from gpufairy.core.reading import GpuDevice

COUNTED = "kube:"


def is_counted(uuid: str) -> bool:
    return uuid.startswith(COUNTED)


def card_places(
    sample: NodeSample, counted: Sequence[str], held: Mapping[str, Collection[str]], before: Mapping[str, str]
) -> dict[str, str]:
    """By UUID of the card its place. `held`: by session, its places. `before`: as it was found the last time, and stays where it can."""
    cards = [device.uuid for device in sample.devices if is_whole(device)]
    known = {card: before[card] for card in cards if before.get(card) in counted}
    left = [place for place in counted if place not in known.values()]
    at = {**known, **dict(zip((card for card in cards if card not in known), left, strict=False))}
    for session, used in cards_of_sessions(sample, at).items():
        places = held.get(session, ())
        strayed = [card for card in used if at[card] not in places]
        others = [card for card, place in at.items() if place in places and card not in used]
        for card, other in zip(strayed, others, strict=False):
            at[card], at[other] = at[other], at[card]
    return at


def is_whole(device: GpuDevice) -> bool:
    """Instances are counted by their profiles, and nobody tells which is which."""
    return device.parent is None and not device.mig


def cards_of_sessions(sample: NodeSample, cards: Collection[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for process in sample.processes:
        session, card = process.owner.session_id, process.on.uuid
        if session is not None and card in cards and card not in found.setdefault(session, []):
            found[session].append(card)
    return found


def at_places(sample: NodeSample, at: Mapping[str, str]) -> NodeSample:
    """The same, told of places."""
    def moved(process: ProcessReading) -> ProcessReading:
        return replace(process, on=replace(process.on, uuid=at.get(process.on.uuid, process.on.uuid)))

    return replace(
        sample,
        devices=tuple(replace(device, uuid=at.get(device.uuid, device.uuid)) for device in sample.devices),
        readings=tuple(replace(reading, uuid=at.get(reading.uuid, reading.uuid)) for reading in sample.readings),
        processes=tuple(map(moved, sample.processes)),
        xids=tuple(replace(xid, uuid=at.get(xid.uuid, xid.uuid)) for xid in sample.xids),
        lost=tuple(gpu if gpu.uuid is None else replace(gpu, uuid=at.get(gpu.uuid, gpu.uuid)) for gpu in sample.lost),
    )
