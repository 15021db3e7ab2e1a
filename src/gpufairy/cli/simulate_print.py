"""What a simulation found, as a table with a column for each policy, and as plain values for scripts."""
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from gpufairy.cli.tables import print_table
from gpufairy.client.values import safe
from gpufairy.core.amounts import show_count, show_duration
from gpufairy.core.node import Node
from gpufairy.core.replay_figures import Figures
from gpufairy.core.replay_job import Job, Trace

MOST_NAMED = 5  # of the jobs that never start, in words; scripts get more
MOST_PLAIN = 1000


@dataclass(frozen=True, slots=True)
class Told:
    policy: str
    figures: Figures | None  # None: nothing could start
    never: tuple[tuple[Job, str], ...]
    took_s: float

    @property
    def speed(self) -> float | None:
        """Times real time."""
        return None if self.figures is None else self.figures.span.total_seconds() / max(self.took_s, 1e-6)


ROWS: tuple[tuple[str, Callable[[Figures], str]], ...] = (
    ("waiting, mean", lambda f: seconds(f.wait_s.mean)),
    ("waiting, p50", lambda f: seconds(f.wait_s.p50)),
    ("waiting, p95", lambda f: seconds(f.wait_s.p95)),
    ("waiting, longest", lambda f: seconds(f.wait_s.most)),
    ("submission to end, mean", lambda f: seconds(f.completion_s.mean)),
    ("submission to end, p50", lambda f: seconds(f.completion_s.p50)),
    ("submission to end, p95", lambda f: seconds(f.completion_s.p95)),
    ("slowdown, mean", lambda f: f"{f.slowdown.mean:,.2f}"),
    ("slowdown, p95", lambda f: f"{f.slowdown.p95:,.2f}"),
    ("GPUs held, to the last end", lambda f: percent(f.utilisation)),
    ("GPUs held, while jobs came", lambda f: percent(f.utilisation_while_coming)),
    ("fairness of slowdown (1: even)", lambda f: f"{f.slowdown_fairness:.3f}"),
    ("fairness of shares while any wait", lambda f: "nobody waited" if f.share_fairness is None else f"{f.share_fairness:.3f}"),
    ("worst off, mean slowdown", lambda f: f"{f.worst.user} {f.worst.slowdown:,.2f}"),
    ("jobs ended", lambda f: f"{f.jobs:,}"),
    ("started by backfill", lambda f: f"{f.passed:,}"),
    ("sent away and begun anew", lambda f: f"{f.sent_away:,}"),
    ("cut short by their time limit", lambda f: f"{f.cut_short:,}"),
    ("never started", lambda f: f"{f.never:,}"),
)


def print_told(trace_name: str, trace: Trace, nodes: Sequence[Node], told: Sequence[Told]) -> None:
    print(head(trace_name, trace, nodes))
    for note in trace.notes:
        print(f"note: {safe(note)}")
    shown = [(one, one.figures) for one in told if one.figures is not None]
    if shown:
        rows = [[name, *(value(figures) for _, figures in shown)] for name, value in ROWS]
        rows.append(["simulated time", *(show_duration(figures.span) for _, figures in shown)])
        rows.append(["times real time", *(f"{one.speed:,.0f}" for one, _ in shown)])
        print_table(["", *(one.policy for one, _ in shown)], rows)
    for one in told:
        if one.never:
            print(never_words(one))


def head(trace_name: str, trace: Trace, nodes: Sequence[Node]) -> str:
    jobs, users = show_count(len(trace.jobs), "job"), show_count(len({job.user for job in trace.jobs}), "user")
    came = show_duration(trace.jobs[-1].submit - trace.jobs[0].submit)
    where = f"{show_count(len(nodes), 'node')} with {show_count(sum(len(node.gpus) for node in nodes), 'GPU')}"
    return f"{safe(trace_name)}: {jobs} of {users} over {came}, on {where}"


def never_words(told: Told) -> str:
    said = "; ".join(f"line {job.line} ({safe(job.user)}): {safe(why)}" for job, why in told.never[:MOST_NAMED])
    more = f"; and {len(told.never) - MOST_NAMED:,} more" if len(told.never) > MOST_NAMED else ""
    return f"{told.policy}: {show_count(len(told.never), 'job')} never started: {said}{more}"


def seconds(value: float) -> str:
    return show_duration(timedelta(seconds=value))


def percent(value: float | None) -> str:
    return "no GPUs" if value is None else f"{value:.1%}"


def told_to_plain(trace_name: str, trace: Trace, nodes: Sequence[Node], told: Sequence[Told]) -> dict[str, Any]:
    return {
        "trace": trace_name, "jobs": len(trace.jobs), "users": len({job.user for job in trace.jobs}), "nodes": len(nodes),
        "gpus": sum(len(node.gpus) for node in nodes), "notes": list(trace.notes), "policies": [policy_to_plain(one) for one in told],
    }  # fmt: skip


def policy_to_plain(told: Told) -> dict[str, Any]:
    never = [{"line": job.line, "name": job.name, "user": job.user, "why": why} for job, why in told.never[:MOST_PLAIN]]
    took = {"took_s": round(told.took_s, 3), "times_real_time": None if told.speed is None else round(told.speed)}
    if told.figures is None:
        return {"policy": told.policy, "figures": None, "never_started": never, **took}
    figures = asdict(told.figures)
    figures["span_s"] = figures.pop("span").total_seconds()
    del figures["policy"]
    return {"policy": told.policy, "figures": figures, "never_started": never, **took}
