"""Alerts of hosts: memory and disks by their trends, inodes, heat, silence, old agents. What is not known is judged by nobody."""
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from gpufairy.core.alert import Condition, Judgement, Severity
from gpufairy.core.alert_look import AlertLook, HostLook
from gpufairy.core.amounts import show_duration, show_size
from gpufairy.core.host_reading import HostReading, MountReading
from gpufairy.core.trend import Floats, Trends

FALLS_TO = 0.4  # of all: what falls from above this may still find its level
CLEARS_AT = 1.5  # times the limit: below, and above it, nothing changes
COOLER_C = 5.0  # than where it began to be bad
Named = Sequence[tuple[str, str]]  # the thing and its node


class HostTrends:
    """What must be remembered of hosts from look to look."""

    def __init__(self) -> None:
        self.memory = Trends(4.0, 36)  # some three minutes
        self.disks = Trends(60.0, 120)  # two hours

    def forget(self, memory: Sequence[str], disks: Sequence[str]) -> None:
        for trends, kept in ((self.memory, memory), (self.disks, disks)):
            if len(trends) > 2 * len(kept) + 100:
                trends.forget(kept)


def host_judgements(look: AlertLook, trends: HostTrends) -> Iterable[Judgement]:
    heard = [(host.node, host.sample) for host in look.hosts if host.sample is not None and not host.silent]
    hosts = [(node, sample.host) for node, sample in heard if sample.host is not None]
    mounts = [(f"{node} {mount.path}", node, mount) for node, host in hosts for mount in host.mounts]
    trends.forget([node for node, _ in hosts], [thing for thing, _, _ in mounts])
    yield memory_low(look, hosts, trends.memory)
    yield disk_filling(look, mounts, trends.disks)
    yield inodes_low(look, mounts)
    yield host_hot(look, hosts)
    yield node_silent(look)
    yield agent_old(look)


def memory_low(look: AlertLook, hosts: Sequence[tuple[str, HostReading]], trends: Trends) -> Judgement:
    names = [node for node, _ in hosts]
    left, total = column(host.memory_available_bytes for _, host in hosts), column(host.memory_total_bytes for _, host in hosts)
    trends.note(names, column(host.at.timestamp() for _, host in hosts), left)
    to_zero_s = trends.to_zero_s(names)
    part, within_s = share(left, total), look.limits.memory_within.total_seconds()
    soon = (to_zero_s <= within_s) & (part < FALLS_TO)
    bad = (part < look.limits.memory_left) | soon
    fine = (part > CLEARS_AT * look.limits.memory_left) & ~(to_zero_s <= 2 * within_s)

    def words(place: int) -> str:
        free = f"{names[place]} has {show_size(int(left[place]))} of {show_size(int(total[place]))} memory left"
        return f"{free}{runs_out(to_zero_s[place], within_s)}"

    return judged("memory_low", [(name, name) for name in names], bad, fine, words)


def disk_filling(look: AlertLook, mounts: Sequence[tuple[str, str, MountReading]], trends: Trends) -> Judgement:
    names, limits = [thing for thing, _, _ in mounts], look.limits
    left, total = column(mount.free_bytes for _, _, mount in mounts), column(mount.total_bytes for _, _, mount in mounts)
    trends.note(names, np.full(len(names), look.now.timestamp()), left)
    to_zero_s, part, within_s = trends.to_zero_s(names), share(left, total), limits.disk_within.total_seconds()
    soon = (to_zero_s <= within_s) & (part < FALLS_TO)
    bad = (part < limits.disk_left) | soon
    fine = (part > CLEARS_AT * limits.disk_left) & ~(to_zero_s <= 1.5 * within_s)

    def words(place: int) -> str:
        _, node, mount = mounts[place]
        has = f"{show_size(mount.free_bytes)} of {show_size(mount.total_bytes)} left"
        return f"{mount.path} on {node} has {has}{runs_out(to_zero_s[place], within_s)}"

    def severity(place: int) -> Severity | None:
        return Severity.CRITICAL if part[place] < limits.disk_left / 2 else None

    return judged("disk_filling", [(thing, node) for thing, node, _ in mounts], bad, fine, words, severity=severity)


def inodes_low(look: AlertLook, mounts: Sequence[tuple[str, str, MountReading]]) -> Judgement:
    part = share(column(mount.inodes_free for _, _, mount in mounts), column(mount.inodes for _, _, mount in mounts))

    def words(place: int) -> str:
        _, node, mount = mounts[place]
        return f"{mount.path} on {node} has {mount.inodes_free} of {mount.inodes} inodes left"

    limit = look.limits.inodes_left
    return judged("inodes_low", [(thing, node) for thing, node, _ in mounts], part < limit, part > CLEARS_AT * limit, words)


def host_hot(look: AlertLook, hosts: Sequence[tuple[str, HostReading]]) -> Judgement:
    hottest = [max(host.temperatures_c, key=lambda sensor: sensor[1], default=("", None)) for _, host in hosts]
    heat, limit = column(one[1] for one in hottest), look.limits.host_hot_c

    def words(place: int) -> str:
        return f"{hosts[place][0]} has {heat[place]:.0f} °C at its sensor {hottest[place][0]}"

    return judged("host_hot", [(node, node) for node, _ in hosts], heat >= limit, heat < limit - COOLER_C, words)


def node_silent(look: AlertLook) -> Judgement:
    """One that has told nothing since the server began is waited for: nobody knows when it was last there."""
    silent = {host.node: Condition(host.node, host.node, silence_words(look, host)) for host in look.hosts if host.silent}
    return Judgement("node_silent", silent, {host.node for host in look.hosts if not host.silent and host.sample is not None})


def silence_words(look: AlertLook, host: HostLook) -> str:
    if host.heard_at is None:
        return f"{host.node} has told nothing since the server began"
    return f"{host.node} is silent since {host.heard_at:%Y-%m-%d %H:%M:%S} UTC"


def agent_old(look: AlertLook) -> Judgement:
    ours = version_of(look.version)
    told = [host for host in look.hosts if host.agent_version and not host.silent]
    old = {host.node for host in told if (version := version_of(host.agent_version)) and ours and version < ours}
    words = {host.node: f"the agent of {host.node} is version {host.agent_version[:20]}, the server {look.version}" for host in told}
    return Judgement("agent_old", {node: Condition(node, node, words[node]) for node in sorted(old)}, {host.node for host in told} - old)


def version_of(text: str) -> tuple[int, ...]:
    found = re.match(r"(\d{1,6})(?:\.(\d{1,6}))?(?:\.(\d{1,6}))?", text)
    return tuple(int(part or 0) for part in found.groups()) if found else ()


def column(values: Iterable[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def share(left: Floats, total: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(total > 0, left / total, np.nan)


def runs_out(to_zero_s: float, within_s: float) -> str:
    """Nothing, where no trend says so."""
    if not to_zero_s <= 2 * within_s:
        return ""
    return f", and at this rate none in {show_duration(timedelta(seconds=float(to_zero_s)))}"


def judged(
    rule: str, things: Named, bad: NDArray[np.bool_], fine: NDArray[np.bool_], words: Callable[[int], str], *,
    severity: Callable[[int], Severity | None] = lambda place: None,
) -> Judgement:  # fmt: skip
    found = {things[place][0]: Condition(*things[place], words(place), severity=severity(place)) for place in np.flatnonzero(bad).tolist()}
    return Judgement(rule, found, {things[place][0] for place in np.flatnonzero(fine & ~bad).tolist()})
