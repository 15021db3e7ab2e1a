"""What one may choose from for a new session: shares of GPUs and kinds with what is free of each, presets, folders, priorities."""
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from gpufairy.core.node import Node
from gpufairy.core.room import GpuRoom, Room
from gpufairy.core.share import NO_GPU, PARTS, Share, ShareKind
from gpufairy.web.launch_form import line_of
from gpufairy.web.speech import _
from gpufairy.web.times import counted_gpus, figure_of
from gpufairy.wire.submit import SubmitBody

FRACTIONS = (PARTS // 10, PARTS // 4, PARTS // 2, PARTS * 3 // 4)
WHOLE = (1, 2, 3, 4, 6, 8, 16)  # more stops than these nobody tells apart
NOW, LATER = "now", "later"


@dataclass(frozen=True, slots=True)
class Stop:
    """One share that may be chosen."""

    share: Share
    text: str  # as it is asked for
    label: str
    said: str
    starts: str = ""  # NOW, LATER, or empty: not known


@dataclass(frozen=True, slots=True)
class Choice:
    value: str
    label: str


@dataclass(frozen=True, slots=True)
class PresetCard:
    name: str
    href: str
    facts: tuple[str, ...]
    command: str


def stops(nodes: Iterable[Node]) -> tuple[Stop, ...]:
    """Nothing, parts of one GPU, whole ones: as many as one node has."""
    most = max((sum(gpu.mig is None for gpu in node.gpus) for node in nodes), default=0)
    shares = [NO_GPU]
    if most:
        counts = sorted({count for count in WHOLE if count < most} | {most})
        shares += [Share(ShareKind.FRACTION, parts) for parts in FRACTIONS]
        shares += [Share(ShareKind.WHOLE, count * PARTS) for count in counts]
    return tuple(stop(share) for share in shares)


def stop(share: Share) -> Stop:
    said = _("no GPU") if share.kind is ShareKind.NONE else counted_gpus(share.parts / PARTS)
    return Stop(share, str(share), figure_of(share.parts / PARTS), said)


def profiles(nodes: Iterable[Node]) -> tuple[Stop, ...]:
    """MIG instances that are cut, or cut when they are asked for; the smallest first."""
    names: dict[str, int] = {}
    for gpu in (gpu for node in nodes for gpu in node.gpus if gpu.mig is not None):
        cut = [one.profile for one in gpu.instances] if gpu.instances is not None and not gpu.mig_auto else []
        offered = cut or [profile.name for profile in gpu.mig.profiles] if gpu.mig is not None else []
        names |= {name: int(name.partition("g.")[0]) for name in offered}
    found = sorted(names, key=lambda name: (names[name], len(name), name))
    shares = [Share(ShareKind.MIG, 0, name) for name in found]
    return tuple(Stop(share, str(share), share.profile, _("MIG instance {profile}").format(profile=share.profile)) for share in shares)


def kinds(rooms: Mapping[str, Room]) -> tuple[Choice, ...]:
    by_kind: dict[str, list[GpuRoom]] = {}
    for gpu in (gpu for room in rooms.values() for gpu in room.gpus):
        by_kind.setdefault(gpu.gpu.kind, []).append(gpu)
    return tuple(Choice(kind, kind_words(kind, by_kind[kind])) for kind in sorted(by_kind))


def kind_words(kind: str, gpus: Sequence[GpuRoom]) -> str:
    free = figure_of(sum(gpu.free_parts for gpu in gpus) / PARTS)
    said = _("{kind}: {free} of {all} free").format(kind=kind, free=free, all=len(gpus))
    return _("{choice}, simulated").format(choice=said) if all(gpu.gpu.simulated for gpu in gpus) else said


def priorities(is_admin: bool, chosen: str) -> tuple[Choice, ...]:
    """As far as they may."""
    offered = [Choice("", _("normal")), Choice("-10", _("low: lets others pass"))]
    if is_admin:
        offered.insert(0, Choice("10", _("high: goes first")))
    return tuple(offered) if chosen in {choice.value for choice in offered} else (*offered, Choice(chosen, chosen))


def preset_cards(presets: Mapping[str, SubmitBody]) -> tuple[PresetCard, ...]:
    return tuple(preset_card(name, presets[name]) for name in sorted(presets))


def preset_card(name: str, body: SubmitBody) -> PresetCard:
    facts = (gpus_asked(body.gpus), body.gpu_kind or "", body.image or "", str(body.time or ""))
    command = line_of(body.command) if body.command else ""
    return PresetCard(name, f"/new?{urlencode({'preset': name})}", tuple(fact for fact in facts if fact), command)


def gpus_asked(gpus: str | int | float | None) -> str:
    """`4 GPUs`; what is no plain number as it was written."""
    if gpus is None:
        return ""
    return counted_gpus(float(gpus)) if str(gpus).replace(".", "", 1).isdecimal() else str(gpus)
