"""The server's own past as a trace: what was asked, when, by whom, how long it ran; and whose right it was, by shares and quotas."""
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from gpufairy.client.protocol import Record
from gpufairy.client.values import time_of
from gpufairy.core.amounts import show_count
from gpufairy.core.cluster import Weights
from gpufairy.core.errors import BadInput
from gpufairy.core.quota import Quota
from gpufairy.core.replay_job import Job, Trace, checked
from gpufairy.core.replay_rules import Rules
from gpufairy.core.session import Request
from gpufairy.core.share import PARTS, parse_share

HISTORY = "history"  # in place of a file


def trace_of(sessions: Iterable[Record], since: datetime) -> Trace:
    """`sessions`: newest first, as the server lists them: those of before `since` are not asked for."""
    jobs: list[Job] = []
    not_run = 0
    for number, session in enumerate(sessions, 1):
        submitted, started, ended = (time_of(session.get(f"{what}_at")) for what in ("submitted", "started", "ended"))
        if submitted is None or submitted < since:
            break
        if started is None or ended is None or ended < started:
            not_run += 1
            continue
        jobs.append(job_of(session, number, submitted, ended - started))
    if not jobs:
        raise BadInput(f"{HISTORY}: no session since {since:%Y-%m-%d %H:%M} UTC has run and ended", "Go further back: --since 90d.")
    known = {job.name for job in jobs}
    jobs = [with_known(job, known) for job in reversed(jobs)]
    notes = [f"{show_count(not_run, 'session')} that never ran, or did not end yet: left out"] if not_run else []
    return checked(jobs, HISTORY, notes)


def weights_of_server(teams: Iterable[Record], users: Iterable[Record]) -> Weights:
    return Weights({team["name"]: float(team["share"]) for team in teams}, {user["name"]: float(user.get("share") or 1) for user in users})


def quotas_of_server(found: Iterable[Record]) -> tuple[Quota, ...]:
    return tuple(
        Quota(
            one["of"], one["gpu_kind"], None if one.get("gpus") is None else round(one["gpus"] * PARTS), one.get("gpu_hours"),
            one.get("sessions"),
        )
        for one in found
    )  # fmt: skip


def with_quotas(rules: Rules, quotas: Iterable[Quota]) -> Rules:
    """The server's, less those that are tried in other sizes; none where there are no turns, so no users."""
    if not rules.turns:
        return rules
    tried = {(quota.of, quota.gpu_kind) for quota in rules.quotas}
    return replace(rules, quotas=(*(quota for quota in quotas if (quota.of, quota.gpu_kind) not in tried), *rules.quotas))


def job_of(session: Record, number: int, submitted: datetime, ran: timedelta) -> Job:
    asked = session.get("request") or {}
    cpus, limit_s = asked.get("cpus"), asked.get("time_s")
    request = Request(
        share=parse_share(str(asked.get("gpus") or "0")), gpu_kind=asked.get("gpu_kind"), pool=asked.get("pool"), image=asked.get("image"),
        cpus_milli=None if cpus is None else int(cpus * 1000), memory_bytes=asked.get("memory_bytes"),
        gpu_memory_bytes=asked.get("gpu_memory_bytes"), time_limit=None if limit_s is None else timedelta(seconds=limit_s),
        preemptible=bool(asked.get("preemptible")),
    )  # fmt: skip
    return Job(
        number, str(session["id"]), str(session["owner"]), submitted, ran, request, session.get("team"),
        int(session.get("priority") or 0), tuple(map(str, asked.get("after") or ())),
    )  # fmt: skip


def with_known(job: Job, known: set[str]) -> Job:
    """What it came after and is not among them had ended well by then."""
    return replace(job, after=tuple(name for name in job.after if name in known))
