"""`fairy alerts`: what is wrong now and what to do about it; taking note, keeping silent, and trying the channels."""
import time
from datetime import timedelta
from typing import Annotated

import typer
from rich.text import Text

from gpufairy.cli.options import AsJson, connect, example_text, group
from gpufairy.cli.tables import print_table
from gpufairy.cli.words import clock_of, print_json
from gpufairy.client import Fairy
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe
from gpufairy.core.amounts import show_count, show_duration

app = group(
    "What is wrong, and what to do about it.",
    "fairy alerts\nfairy alerts silence --node gpu01 --for 2h --why 'new disk'",
    means_something_alone=True,
)
LOOKS = {"critical": "red", "warning": "yellow", "note": "bright_black"}
FOLLOW_S = 2.0

Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on, and print what changes.")]
Past = Annotated[bool, typer.Option("--past", help="Those that are over, too.")]
Node = Annotated[str, typer.Option("--node", metavar="NODE", help="Of this host alone.")]
AlertId = Annotated[str, typer.Argument(metavar="ALERT", help="Its id, as `fairy alerts` shows it.")]


@app.callback(invoke_without_command=True)
def nothing_said(ctx: typer.Context, follow: Follow = False, past: Past = False, node: Node = "", as_json: AsJson = False) -> None:
    if ctx.invoked_subcommand is None:
        show(ctx, follow, past, node, as_json)


@app.command("list", epilog=example_text("fairy alerts list --past --node gpu01"))
def show(ctx: typer.Context, follow: Follow = False, past: Past = False, node: Node = "", as_json: AsJson = False) -> None:
    """Show what fires and what is pending; with --past what is over."""
    with connect(ctx) as fairy:
        if follow:
            follow_alerts(fairy, node, as_json)
            return
        items = fairy.alerts(past=False, node=node) + (fairy.alerts(past=True, node=node) if past else [])
        if as_json:
            print_json({"items": items})
        elif items:
            print_table(["", "SINCE", "STATE", "ALERT", "WHAT"], map(_row, items))
            print_steps(items)
        else:
            print("Nothing is wrong." if not past else "Nothing is wrong, and nothing was.")


def follow_alerts(fairy: Fairy, node: str, as_json: bool) -> None:
    known: dict[str, Record] = {}
    while True:
        now = {alert["id"]: alert for alert in fairy.alerts(past=False, node=node)}
        over = [alert_id for alert_id in known if alert_id not in now]
        news = [alert for alert_id, alert in now.items() if known.get(alert_id, {}).get("state") != alert["state"]]
        past = {alert["id"]: alert for alert in fairy.alerts(past=True, node=node)} if over else {}
        for alert in [*news, *(past[alert_id] for alert_id in over if alert_id in past)]:
            print_json(alert) if as_json else print(line_of(alert), flush=True)
        known = now
        time.sleep(FOLLOW_S)


def line_of(alert: Record) -> str:
    at = clock_of(alert["resolved_at"] or alert["fired_at"] or alert["since"])
    ended = f" ({safe(alert['ended_why'])})" if alert["ended_why"] else ""
    return f"{at}  {safe(alert['state'])}  {safe(alert['severity'])}  {safe(alert['id'])}  {safe(alert['sentence'])}{ended}"


def _row(alert: Record) -> list[str | Text]:
    marks = [safe(alert["state"])]
    if alert["acknowledged_by"]:
        marks.append(f"noted by {safe(alert['acknowledged_by'])}")
    if alert["silenced_by"]:
        marks.append("silenced")
    words = safe(alert["sentence"]) + (f" ({safe(alert['ended_why'])})" if alert["ended_why"] else "")
    severity = Text(safe(alert["severity"]), LOOKS.get(str(alert["severity"]), ""))
    return [severity, clock_of(alert["fired_at"] or alert["since"]), ", ".join(marks), safe(alert["id"]), words]


def print_steps(items: list[Record]) -> None:
    """Each once, however many it is of."""
    steps = dict.fromkeys((safe(alert["rule"]), safe(alert["todo"])) for alert in items if alert["state"] == "firing")
    for rule, todo in steps:
        print(f"{rule}: {todo}")


@app.command(epilog=example_text("fairy alerts ack 3f2a9c01bd"))
def ack(ctx: typer.Context, alert: AlertId, as_json: AsJson = False) -> None:
    """Take note of an alert: nobody else is told, and nobody again."""
    with connect(ctx) as fairy:
        noted = fairy.acknowledge_alert(alert)
    print_json(noted) if as_json else print(f"Noted: {safe(noted['sentence'])}.")


@app.command(epilog=example_text("fairy alerts silence --node gpu01 --for 2h --why 'new disk'"))
def silence(  # noqa: PLR0917 - options, each with its name
    ctx: typer.Context,
    why: Annotated[str, typer.Option("--why", metavar="WORDS", help="Why nobody needs to be told.")],
    time: Annotated[str, typer.Option("--for", metavar="TIME", help="How long, such as 2h.")] = "2h",
    rule: Annotated[str, typer.Option("--rule", metavar="RULE", help="A rule, or a pattern such as gpu_*.")] = "*",
    node: Annotated[str, typer.Option("--node", metavar="NODE", help="A host, or a pattern such as gpu0*.")] = "*",
    thing: Annotated[str, typer.Option("--thing", metavar="THING", help="What it is about, such as 'gpu01 GPU 3'.")] = "*",
    start: Annotated[str | None, typer.Option("--from", metavar="TIME", help="From then on: 2026-11-15T08:00:00+09:00. Else now.")] = None,
    as_json: AsJson = False,
) -> None:
    """Tell nobody of what fits, for a time: while a host is mended, say."""
    with connect(ctx) as fairy:
        made = fairy.silence_alerts({"why": why, "time": time, "rule": rule, "node": node, "thing": thing, "start": start})
    if as_json:
        print_json(made)
    else:
        print(f"Silent until {clock_of(made['end'])}: {silence_words(made)}. End it: fairy alerts unsilence {safe(made['id'])}")


def silence_words(silence: Record) -> str:
    parts = [f"{what} {safe(silence[what])}" for what in ("rule", "node", "thing") if silence[what] != "*"]
    return f"{', '.join(parts) or 'everything'} ({safe(silence['why'])})"


@app.command(epilog=example_text("fairy alerts silences"))
def silences(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List what is kept silent, now and later."""
    with connect(ctx) as fairy:
        items = fairy.silences()
    if as_json:
        print_json({"items": items})
    elif items:
        print_table(
            ["ID", "FROM", "UNTIL", "BY", "WHAT"],
            ([safe(one["id"]), clock_of(one["start"]), clock_of(one["end"]), safe(one["made_by"]), silence_words(one)] for one in items),
        )
    else:
        print("Nothing is kept silent.")


@app.command(epilog=example_text("fairy alerts unsilence 8a10f3c2"))
def unsilence(ctx: typer.Context, silence: Annotated[str, typer.Argument(metavar="SILENCE")]) -> None:
    """End a silence."""
    with connect(ctx) as fairy:
        fairy.unsilence_alerts(silence)
    print("It is told again.")


@app.command(epilog=example_text("fairy alerts rules"))
def rules(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List every rule: what it watches, and what to do."""
    with connect(ctx) as fairy:
        items = fairy.alert_rules()
    if as_json:
        print_json({"items": items})
        return
    print_table(
        ["RULE", "SEVERITY", "AFTER", "", "WHAT"],
        (
            [safe(one["id"]), safe(one["severity"]), after_words(one["after_s"]), "" if one["on"] else "off", safe(one["what"])]
            for one in items
        ),
    )


def after_words(seconds: float) -> str:
    return show_duration(timedelta(seconds=seconds)) if seconds else "at once"


@app.command(epilog=example_text("fairy alerts channels"))
def channels(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List where alerts are told, and whether they get there."""
    with connect(ctx) as fairy:
        items = fairy.alert_channels()
    if as_json:
        print_json({"items": items})
    elif items:
        print_table(["CHANNEL", "KIND", "TO", "FROM ON", "LAST SENT", "WAITING", "TROUBLE"], map(_channel_row, items))
    else:
        print("Alerts are told nowhere yet: set [[channels]] in fairy.toml (docs/settings.md).")


def _channel_row(one: Record) -> list[str | Text]:
    sent = "never" if one["sent_at"] is None else clock_of(one["sent_at"])
    return [safe(one["name"]), safe(one["kind"]), safe(one["to"]), safe(one["severity"]), sent, str(one["waiting"]), safe(one["trouble"])]


@app.command("test", epilog=example_text("fairy alerts test ops"))
def try_channel(ctx: typer.Context, channel: Annotated[str, typer.Argument(metavar="CHANNEL")], as_json: AsJson = False) -> None:
    """Send a test to a channel now."""
    with connect(ctx) as fairy:
        sent = fairy.test_channel(channel)
    print_json(sent) if as_json else print(f"A test went to {safe(sent['to'])}.")


@app.command(epilog=example_text("fairy alerts uptime"))
def uptime(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Show for what part of the last 30 days each host was there, and when and why it was not."""
    with connect(ctx) as fairy:
        items = fairy.uptime()
    if as_json:
        print_json({"items": items})
        return
    print_table(["NODE", "THERE", "AWAY", "PLANNED", "NOT WATCHED", "LAST"], (_uptime_row(one) for one in items))


def _uptime_row(one: Record) -> list[str | Text]:
    last = one["downtimes"][0] if one["downtimes"] else None
    words = "" if last is None else f"{clock_of(last['since'])}: {safe(last['why'])}"
    planned, unwatched = (_length(one[name]) for name in ("planned_s", "unwatched_s"))
    return [safe(one["node"]), f"{100 * one['part']:.3f} %", show_count(len(one["downtimes"]), "time"), planned, unwatched, words]


def _length(seconds: float) -> str:
    return show_duration(timedelta(seconds=seconds)) if seconds >= 1 else ""
