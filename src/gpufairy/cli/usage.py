"""`fairy usage`: GPU-time held and used, and one session's readings as a line of bars."""
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.text import Text

from gpufairy.cli.options import AsJson, connect, one_command, session_names
from gpufairy.cli.tables import print_table, with_simulated
from gpufairy.cli.words import clock_of, print_json
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe
from gpufairy.core.amounts import show_size

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 60  # characters of a line of bars

Since = Annotated[str | None, typer.Option("--since", metavar="TIME", help="How far back: 1h, 7d, or 2026-11-15T08:00:00Z. Else 7d.")]
ByWhat = Annotated[str, typer.Option("--by", metavar="WHAT", help="user, session, gpu or node.")]
OfSession = Annotated[
    str | None, typer.Option("--session", metavar="NAME", help="This session's readings over time.", autocompletion=session_names)
]


def _usage(ctx: typer.Context, since: Since = None, by: ByWhat = "user", session: OfSession = None, as_json: AsJson = False) -> None:
    """Show GPU-hours held and used. What was held while nobody could tell the use is counted apart, not as unused."""
    with connect(ctx) as fairy:
        answer = fairy.usage(since, by) if session is None else fairy.session_readings(session, since)
    if as_json:
        print_json(answer)
    elif session is not None:
        _print_session(answer)
    else:
        _print_usage(answer)


def _print_usage(answer: Record) -> None:
    items, by = answer["items"], safe(answer.get("by"))
    if not items:
        print(f"Nothing was held or used since {clock_of(answer.get('since'))}.")
        return
    outside = any(item.get("outside_gpu_hours") for item in items)
    columns = [by.upper(), *(["OWNER"] if by == "session" else []), "HELD GPU-H", "USED", "OF WHAT IS KNOWN", "NOT KNOWN"]
    print_table([*columns, *(["OUTSIDE SESSIONS"] if outside else [])], [_row(item, by, outside) for item in items])
    print(f"since {clock_of(answer.get('since'))}; NOT KNOWN was held while nobody could tell how much of it was used")


def _row(item: Record, by: str, outside: bool) -> list[str | Text]:
    named = with_simulated(_name(item, by), bool(item.get("simulated")))
    names: list[str | Text] = [named, safe(item.get("owner"))] if by == "session" else [named]
    held, unknown, used = item.get("held_gpu_hours") or 0.0, item.get("unknown_gpu_hours") or 0.0, item.get("used_gpu_hours")
    known = held - unknown
    part = "" if used is None or known <= 0 else f"{min(1.0, used / known):.0%}"
    return [*names, hours(held), hours(used), part, hours(unknown), *([hours(item.get("outside_gpu_hours"))] if outside else [])]


def _name(item: Record, by: str) -> str:
    if by == "gpu" and item.get("index") is not None:
        return f"{safe(item.get('node'))} {safe(item['index'])} {safe(item.get('kind'))}"
    return safe(item.get("name"))


def hours(value: float | None) -> str:
    return "?" if value is None else f"{value:,.2f}"


def _print_session(answer: Record) -> None:
    times, columns = answer.get("times") or [], answer.get("columns") or {}
    if not times:
        print(f"Nothing is known of {safe(answer.get('name'))} yet. Readings come every few seconds once it runs.")
        return
    print(f"{safe(answer.get('name'))}, {clock_of(times[0])} to {clock_of(times[-1])}")
    rows = []
    for name, column in columns.items():
        values = column.get("mean") or []
        known = [value for value in values if value is not None]
        if known:
            unit = safe(column.get("unit"))
            rows.append([WORDS.get(name, safe(name)), sparkline(values), amount(known[-1], unit), amount(max(known), unit)])
    print_table(["READING", "OVER TIME", "LAST", "HIGHEST"], rows)


WORDS = {
    "gpus_held": "GPUs held", "gpus_used": "GPUs used", "gpu_memory_bytes": "GPU memory", "cpus": "CPUs used",
    "memory_bytes": "memory", "gpus_unknown": "GPUs held, use not known", "read_bytes_per_s": "read from disks",
    "written_bytes_per_s": "written to disks", "received_bytes_per_s": "received", "sent_bytes_per_s": "sent",
    "io_waited": "waited for disks",
}  # fmt: skip


def sparkline(values: Sequence[float | None], width: int = WIDTH) -> str:
    """Each character the mean of what is known in its stretch, from nothing to the highest; a blank where nothing is known."""
    count = min(width, len(values))
    stretches = [values[place * len(values) // count : (place + 1) * len(values) // count] for place in range(count)]
    means = [sum(known) / len(known) if (known := [value for value in some if value is not None]) else None for some in stretches]
    highest = max((mean for mean in means if mean is not None), default=0.0) or 1.0
    return "".join(" " if mean is None else BARS[min(len(BARS) - 1, int(mean / highest * len(BARS)))] for mean in means)


def amount(value: float, unit: str) -> str:
    if unit in ("bytes", "bytes_per_s"):
        return show_size(int(value)) + ("/s" if unit == "bytes_per_s" else "")
    return f"{value:.0%}" if unit == "ratio" else f"{value:.2f}".rstrip("0").rstrip(".")


usage = one_command(_usage, "fairy usage --since 7d\nfairy usage --by session\nfairy usage --session brave-otter")
