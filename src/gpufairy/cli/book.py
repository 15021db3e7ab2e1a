"""`fairy book`: GPUs for certain people for a certain time. Times are the user's own; the server has them in UTC."""
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from gpufairy.cli.book_calendar import drawn, kind_words, legend_line, span_of, span_words
from gpufairy.cli.exits import say
from gpufairy.cli.options import AsJson, GpuKind, Pool, connect, example_text, group
from gpufairy.cli.tables import print_table
from gpufairy.cli.when import here, parse_when
from gpufairy.cli.words import print_json
from gpufairy.client import Fairy
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe
from gpufairy.core.amounts import parse_duration
from gpufairy.core.errors import BadInput

EXAMPLE = 'fairy book --gpus 4 --gpu-kind A100 --from "tomorrow 14:00" --for 2h --team nlp --title CS231n\nfairy book show --week'
COLUMNS = ["ID", "WHEN", "GPUS", "FOR", "BY", "STATE", "TITLE"]
WEEK = 7

app = group(
    "Book GPUs for a class or a deadline. What is booked, by whom and for what is shown to all.", EXAMPLE, means_something_alone=True,
)  # fmt: skip

Count = Annotated[int | None, typer.Option("--gpus", metavar="N", help="How many whole GPUs.")]
From = Annotated[str | None, typer.Option("--from", metavar="TIME", help='"2026-11-20 14:00", "tomorrow 14:00", 14:00, "in 2h", now.')]
For = Annotated[str | None, typer.Option("--for", metavar="TIME", help="How long, such as 2h.")]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Or until when.")]
Node = Annotated[str | None, typer.Option("--node", metavar="NODE", help="Only GPUs of this node.")]
Team = Annotated[str | None, typer.Option("--team", metavar="TEAM", help="For this team. Else for yourself.")]
User = Annotated[list[str] | None, typer.Option("--user", metavar="USER", help="For this user, as an admin. Repeatable.")]
Title = Annotated[str | None, typer.Option("--title", metavar="TEXT", help="What it is for. Everybody sees it.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="As `fairy book list` has it.")]


@app.callback(invoke_without_command=True)
def book(
    ctx: typer.Context, *, gpus: Count = None, gpu_kind: GpuKind = None, pool: Pool = None, node: Node = None, start: From = None,
    length: For = None, until: Until = None, team: Team = None, user: User = None, title: Title = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    asked = {"--gpus": gpus, "--from": start, "--for or --until": length or until, "--title": title}
    if ctx.invoked_subcommand is not None:
        return
    if not any((*asked.values(), gpu_kind, pool, node, team, user)):
        list_bookings(ctx, as_json=as_json)
        return
    missing = [name for name, value in asked.items() if value is None]
    if missing:
        raise BadInput(f"a booking needs {', '.join(missing)}", f"Such as: {EXAMPLE.splitlines()[0]}")
    body = {"gpus": gpus, "gpu_kind": gpu_kind, "pool": pool, "node": node, "team": team, "users": user or None, "title": title}
    given = {name: value for name, value in body.items() if value is not None}
    with connect(ctx) as fairy:
        made = fairy.book({**given, **_when(start or "", length, until)})
    if as_json:
        print_json(made)
        return
    print(f"booked {safe(made['id'])}: {_gpu_words(made)}, {span_words(made)}, for {', '.join(map(safe, made['who']))}")
    say(f"Everybody sees the title. What nobody uses for 15 min is lent. Not needed after all: fairy book cancel {safe(made['id'])}")


@app.command("list", epilog=example_text("fairy book list"))
def list_bookings(
    ctx: typer.Context, past: Annotated[bool, typer.Option("--past", help="Those that are over, too.")] = False, as_json: AsJson = False
) -> None:
    """List bookings that are not over."""
    with connect(ctx) as fairy:
        found = fairy.bookings(past=past)
    if as_json:
        print_json({"items": found})
    elif not found:
        print(f"Nothing is booked. Try: {EXAMPLE.splitlines()[0]}")
    else:
        print_table(COLUMNS, [_row(one) for one in found])


@app.command(epilog=example_text("fairy book cancel 3f9a1c"))
def cancel(ctx: typer.Context, booking: Id, as_json: AsJson = False) -> None:
    """Cancel a booking. One that runs ends now; sessions on its GPUs go on as ordinary ones."""
    with connect(ctx) as fairy:
        ended = fairy.cancel_booking(booking)
    if as_json:
        print_json(ended)
    else:
        print(f"cancelled {legend_line(ended)}")


@app.command(epilog=example_text("fairy book show --day fri"))
def show(
    ctx: typer.Context,
    day: Annotated[str, typer.Option("--day", metavar="DAY", help='"2026-11-20", today, tomorrow or fri.')] = "today",
    week: Annotated[bool, typer.Option("--week", help="The seven days from then on.")] = False,
    as_json: AsJson = False,
) -> None:
    """Draw the calendar: a row for each GPU."""
    now = datetime.now(UTC)
    begins = here(parse_when(day, now, "--day")).replace(hour=0, minute=0, second=0, microsecond=0)
    span = span_of(begins, WEEK if week else 1, now)
    with connect(ctx) as fairy:
        found = fairy.bookings(_utc(span.start), _utc(span.end))
        gpus = _gpus(fairy)
    if as_json:
        print_json({"from": _utc(span.start), "until": _utc(span.end), "items": found})
        return
    for line in drawn(found, gpus, span):
        print(line)


def _when(start: str, length: str | None, until: str | None) -> Record:
    """Both ends as UTC."""
    if length is not None and until is not None:
        raise BadInput(f"--for {length} and --until {until} are two ends", "Give one of them.")
    now = datetime.now(UTC)
    begins = parse_when(start, now, "--from")
    ends = _until(until or "", begins, now) if length is None else begins + parse_duration(length, "--for")
    return {"from": _utc(begins), "until": _utc(ends)}


def _until(text: str, begins: datetime, now: datetime) -> datetime:
    """A time of day alone is the first after the beginning."""
    clock_alone = ":" in text and len(text.split()) == 1 and "-" not in text
    return parse_when(text, max(begins, now) if clock_alone else now, "--until")


def _utc(at: datetime) -> str:
    at = at.astimezone(UTC)
    return f"{at - timedelta(microseconds=at.microsecond):%Y-%m-%dT%H:%M:%SZ}"


def _gpus(fairy: Fairy) -> list[Record]:
    """Those that sessions run on: a host that is only watched has none to book."""
    return [gpu for gpu in fairy.gpus() if gpu.get("fgpu") is not None]


def _row(one: Record) -> list[str]:
    lent = sum(bool(gpu.get("lent")) for gpu in one["gpus"])
    state = safe(one["state"]) + (f", {lent} lent" if lent else "") + (f", {safe(one['trouble'])}" if one.get("trouble") else "")
    who = ", ".join(map(safe, one["who"]))
    return [safe(one["id"]), span_words(one), _gpu_words(one), who, safe(one["made_by"]), state, safe(one["title"])]


def _gpu_words(one: Record) -> str:
    """`gpu01 GPU 0,1 A100-40GB; gpu02 GPU 3 A100-40GB`."""
    places: dict[tuple[str, str], list[str]] = {}
    for gpu in one["gpus"]:
        places.setdefault((safe(gpu.get("node") or gpu["uuid"]), kind_words(gpu)), []).append(safe(gpu.get("index")))
    return "; ".join(f"{node} GPU {','.join(indices)} {kind}".strip() for (node, kind), indices in places.items())
