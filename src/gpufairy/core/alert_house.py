"""Alerts of the house: the queue, certificates, backups, leaks, disk limits, what the doctor found. And all judgements together."""
from collections.abc import Iterable

from gpufairy.core.alert import Condition, Judgement, Severity
from gpufairy.core.alert_gpus import EccCounts, gpu_judgements
from gpufairy.core.alert_hosts import HostTrends, host_judgements
from gpufairy.core.alert_look import AlertLook, Certificate
from gpufairy.core.amounts import show_count, show_duration
from gpufairy.core.doctor_night import Trouble

QUEUE, BACKUP = "queue", "backup"


def judgements(look: AlertLook, trends: HostTrends, ecc: EccCounts) -> list[Judgement]:
    return [*host_judgements(look, trends), *gpu_judgements(look, ecc), *house_judgements(look)]


def house_judgements(look: AlertLook) -> Iterable[Judgement]:
    yield queue_stuck(look)
    yield certificate_ending(look)
    yield backup_old(look)
    leaks = {leak.thing: Condition(leak.thing, leak.node, leak.sentence, leak.todo) for leak in look.leaks}
    yield Judgement("leak", leaks, Everything())
    yield doctor_found(look)
    yield disk_over(look)


class Everything:
    """The janitor tells of all leaks that there are, as the doctor does of what fails, and looks of who is over a limit: whatever they do
    not name is fine."""

    def __contains__(self, thing: object) -> bool:
        return True


def disk_over(look: AlertLook) -> Judgement:
    found = [Condition(f"{one.user} on {one.node or 'the server'}", one.node, one.sentence) for one in look.disk_over]
    return Judgement("disk_over", {one.thing: one for one in found}, Everything())


def queue_stuck(look: AlertLook) -> Judgement:
    found = [f"the loop {name} fails: {why}" for name, why in look.queue.failing]
    if look.queue.engine_silent_since is not None:
        found.append(f"the engine does not answer since {look.queue.engine_silent_since:%Y-%m-%d %H:%M:%S} UTC")
    hanging = [one for one in look.queue.starting if look.now - one[2] > look.limits.starting_for]
    found += [f"session {name} is starting on {node} for {show_duration(look.now - since)}" for name, node, since in hanging[:3]]
    if not found:
        return Judgement("queue_stuck", {}, {QUEUE})
    waiting = f"; {show_count(look.queue.waiting, 'session waits', 'sessions wait')}" if look.queue.waiting else ""
    return Judgement("queue_stuck", {QUEUE: Condition(QUEUE, "", f"{'; '.join(found)}{waiting}")})


def certificate_ending(look: AlertLook) -> Judgement:
    bad, fine = dict[str, Condition](), set[str]()
    for one in look.certificates:
        words = certificate_words(look, one)
        if words:
            over = one.ends_at is not None and one.ends_at <= look.now
            bad[one.where] = Condition(one.where, "", words, severity=Severity.CRITICAL if over else None)
        else:
            fine.add(one.where)
    return Judgement("certificate_ending", bad, fine)


def certificate_words(look: AlertLook, one: Certificate) -> str:
    """Empty: it is good for long enough."""
    if one.ends_at is None:
        return f"the certificate {one.where} cannot be read: {one.trouble}"
    if one.ends_at <= look.now:
        return f"the certificate {one.where} ended {show_duration(look.now - one.ends_at)} ago"
    left = one.ends_at - look.now
    return f"the certificate {one.where} ends in {show_duration(left)}" if left < look.limits.certificate_within else ""


def backup_old(look: AlertLook) -> Judgement:
    if look.last_backup is None:
        return Judgement("backup_old")
    age = look.now - look.last_backup
    if age <= look.limits.backup_within:
        return Judgement("backup_old", {}, {BACKUP})
    return Judgement("backup_old", {BACKUP: Condition(BACKUP, "", f"the last good backup is {show_duration(age)} old")})


def doctor_found(look: AlertLook) -> Judgement:
    """Each check by itself: what fails tonight is told, whatever has been failing since last week."""
    if look.doctor is None:
        return Judgement("doctor")
    return Judgement("doctor", {one.check: Condition(one.check, "", doctor_words(one)) for one in look.doctor}, Everything())


def doctor_words(trouble: Trouble) -> str:
    again = "again, after it was well" if trouble.again else f"since {trouble.since:%Y-%m-%d}"
    return f"{trouble.about} fails on the server's host, {again}: {trouble.found}"
