"""Isolation: what the tries of a self-test mean. Figures of sessions, their share and the way of sharing come in, verdicts go out."""
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from gpufairy.core.amounts import show_size
from gpufairy.core.node import Sharing
from gpufairy.core.share import PARTS
from gpufairy.core.sharing import DEVICES, EVASION, MEMORY, SM, Attempt, IsolationTest, Verdict
from gpufairy.core.tried import TOLERANCE_BYTES, ProbeFacts, Tried

OWN_SHARE = "its own share"  # the one way that must succeed: a share that nobody can have is none
# What of a share a program may miss: its context, what the driver keeps for itself, and the last pages that no allocator finds.
CONTEXT_BYTES, LOST_PARTS = 2**30, PARTS // 20
SM_PAIR = 2  # multiprocessors come in pairs, so a percentage may be rounded by one pair
WORST_FIRST = (Verdict.FAILED, Verdict.ACCOUNTED, Verdict.ENFORCED, Verdict.UNTRIED)
WHATS = (MEMORY, SM, DEVICES, EVASION)


@dataclass(frozen=True, slots=True)
class Held:
    """What a session of the self-test should be held to."""

    sharing: Sharing
    memory_bytes: int
    parts: int  # of PARTS, of the multiprocessors


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two sessions, and what came of its tries."""

    held: Held
    facts: ProbeFacts
    tried: tuple[Tried, ...]


def judged(sides: Sequence[Side]) -> tuple[Attempt, ...]:
    """Each way once, with the worse of what the sessions found."""
    found: dict[tuple[str, str], Attempt] = {}
    measured = {tried.of for side in sides for tried in side.tried if tried.got_bytes or tried.sms}
    for side in sides:
        for tried in side.tried:
            attempt = judge(tried, side.held, side.facts)
            if shut_out(tried) and not measured & ({MEMORY, SM} if tried.of == EVASION else {tried.of}):
                # That one way in is barred says something only where there is another.
                attempt = replace(attempt, verdict=Verdict.UNTRIED, found=f"nobody was let in: {tried.words}")
            known = found.get((tried.of, tried.way))
            if known is None or WORST_FIRST.index(attempt.verdict) < WORST_FIRST.index(known.verdict):
                found[tried.of, tried.way] = attempt
    return tuple(sorted(found.values(), key=lambda attempt: WHATS.index(attempt.of) if attempt.of in WHATS else len(WHATS)))


def judge(tried: Tried, held: Held, facts: ProbeFacts) -> Attempt:
    verdict, words = _judge(tried, held, facts)
    return Attempt(tried.way, tried.of, verdict, words)


def shut_out(tried: Tried) -> bool:
    return bool(tried.words) and 0 in (tried.got_bytes, tried.sms)


def _judge(tried: Tried, held: Held, facts: ProbeFacts) -> tuple[Verdict, str]:
    if tried.error:
        return Verdict.UNTRIED, tried.error
    if tried.way == OWN_SHARE and tried.got_bytes is not None:
        return _own_share(tried.got_bytes, held.memory_bytes)
    if tried.got_bytes is not None:
        return _memory(tried, tried.got_bytes, held)
    if tried.shown_bytes is not None:
        told = f"{show_size(tried.shown_bytes)}, its share is {show_size(held.memory_bytes)}"
        return (_over(held, tried.of) if tried.shown_bytes > held.memory_bytes + TOLERANCE_BYTES else Verdict.ENFORCED), told
    if tried.sms is not None:
        return _multiprocessors(tried, tried.sms, held, facts)
    if tried.reached is not None:
        # Whatever the way of sharing: nobody chose that a container may reach what it was not given.
        return (Verdict.FAILED, f"reached {', '.join(tried.reached)}") if tried.reached else (Verdict.ENFORCED, tried.words)
    return Verdict.UNTRIED, "it told nothing"


def _over(held: Held, of: str) -> Verdict:
    """Got more. Where GPUs are shared in turns, or somebody means to evade, nothing is said to hold it: it is counted, and watched."""
    return Verdict.ACCOUNTED if held.sharing is Sharing.TIME or of == EVASION else Verdict.FAILED


def _memory(tried: Tried, got_bytes: int, held: Held) -> tuple[Verdict, str]:
    share = show_size(held.memory_bytes)
    if got_bytes > held.memory_bytes + TOLERANCE_BYTES:
        return _over(held, tried.of), f"got {show_size(got_bytes)} of a share of {share}, and was not refused more"
    if tried.words and not got_bytes:
        return Verdict.ENFORCED, f"not let in: {tried.words}"
    return Verdict.ENFORCED, f"refused after {show_size(got_bytes)} of a share of {share}"


def _own_share(got_bytes: int, share_bytes: int) -> tuple[Verdict, str]:
    missing = share_bytes - got_bytes
    if missing > CONTEXT_BYTES + share_bytes * LOST_PARTS // PARTS:
        return Verdict.FAILED, f"only {show_size(got_bytes)} of its {show_size(share_bytes)} could be had"
    return Verdict.ENFORCED, f"had {show_size(got_bytes)} of its {show_size(share_bytes)}"


def _multiprocessors(tried: Tried, sms: int, held: Held, facts: ProbeFacts) -> tuple[Verdict, str]:
    if tried.words and not sms:
        return Verdict.ENFORCED, f"not let in: {tried.words}"
    most = most_sms(held, facts)
    if most is None:
        return Verdict.UNTRIED, f"{sms}, but how many would be its share is not known"
    told = f"{sms} of {facts.whole_sms or '?'}, its share is {most}"
    return (_over(held, tried.of) if sms > most + (0 if held.sharing is Sharing.MIG else SM_PAIR) else Verdict.ENFORCED), told


def most_sms(held: Held, facts: ProbeFacts) -> int | None:
    """Of a MIG instance what it was cut with, which is not in proportion to its slices: a 3g has 60 of an H100's 132."""
    if held.sharing is Sharing.MIG:
        return facts.instance_sms
    return None if facts.whole_sms is None else ceil(facts.whole_sms * held.parts / PARTS)


def overall(test: IsolationTest, what: str) -> Verdict:
    """One word for all ways: the worst of those that were tried."""
    found = {attempt.verdict for attempt in test.attempts if attempt.of == what}
    worst = next((verdict for verdict in WORST_FIRST if verdict in found), Verdict.UNTRIED)
    return Verdict.ACCOUNTED if worst is Verdict.ENFORCED and not test.can_hold(what) else worst
