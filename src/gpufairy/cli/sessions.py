"""`fairy ps`, `show` and `stop`: the sessions that are there."""
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from rich.text import Text

from gpufairy.cli.exits import NO_SUCH_THING, say
from gpufairy.cli.insight import advice_known, insight_pairs, summary_known
from gpufairy.cli.options import AsJson, Name, connect, one_command, session_names
from gpufairy.cli.tables import gpus_text, print_pairs, print_table, state_text, with_simulated
from gpufairy.cli.words import age_of, clock_of, forecast_words, node_of, print_json, share_notes, share_words
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe
from gpufairy.core.amounts import show_duration, show_size
from gpufairy.core.errors import BadInput

NONE_LIVE = "No sessions. Try: fairy run --gpus 0.5 -- python train.py"


def _ps(
    ctx: typer.Context,
    *,
    ended: Annotated[bool, typer.Option("--all", "-a", help="Those that have ended too.")] = False,
    all_users: Annotated[bool, typer.Option("--all-users", help="Everybody's, for admins.")] = False,
    owner: Annotated[str | None, typer.Option("--owner", metavar="USER", help="Only this user's.")] = None,
    state: Annotated[str | None, typer.Option("--state", metavar="STATE", help="Only in this state, such as RUNNING.")] = None,
    as_json: AsJson = False,
) -> None:
    """List sessions that wait or run."""
    with connect(ctx) as fairy:
        found = list(fairy.sessions(ended=ended, all_users=all_users, owner=owner, state=state))
    if as_json:
        print_json({"items": found})
    elif not found:
        print(NONE_LIVE)
    else:
        now, with_owner = datetime.now(UTC), all_users or owner is not None
        columns = ["NAME", *(["OWNER"] if with_owner else []), "STATE", "GPUS", "NODE", "AGE", "WHY"]
        print_table(columns, [_row(session, now, with_owner) for session in found])


def _row(session: Record, now: datetime, with_owner: bool) -> list[str | Text]:
    owner = [safe(session.get("owner"))] if with_owner else []
    age = age_of(session.get("submitted_at"), now)
    return [session["name"], *owner, state_text(session), gpus_text(session), node_of(session), age, safe(session.get("why"))]


def _show(ctx: typer.Context, name: Name, as_json: AsJson = False) -> None:
    """Show all about one session."""
    with connect(ctx) as fairy:
        session = fairy.session(name)
        said, over = advice_known(fairy, session), summary_known(fairy, session)
    if as_json:
        print_json({**session, "advice": said, "summary": over})
    else:
        print_pairs([*_pairs(session, datetime.now(UTC)), *insight_pairs(over, said)])


def _pairs(session: Record, now: datetime) -> list[tuple[str, str | Text]]:
    request = session.get("request") or {}
    memory = request.get("memory_bytes")
    code = session.get("exit_code")
    return [
        ("name", session["name"]),
        ("id", safe(session.get("id"))),
        ("owner", safe(session.get("owner")) + (f" (team {safe(session['team'])})" if session.get("team") else "")),
        ("state", state_text(session)),
        ("why", safe(session.get("why"))),
        ("idle", _idle(session.get("idle") or {})),
        ("exit code", "" if code is None else str(code)),
        ("forecast", forecast_words(session, now)),
        ("gpus asked", safe(request.get("gpus"))),
        ("cpus asked", safe(request.get("cpus"))),
        ("memory asked", "" if memory is None else show_size(int(memory))),
        ("time limit", "" if (limit := request.get("time_s")) is None else show_duration(timedelta(seconds=float(limit)))),
        ("ends at", clock_of(session.get("ends_at"))),
        ("image", safe(request.get("image")) + (" (you are root in it)" if session.get("root_inside") else "")),
        ("mounts", ", ".join(safe(mount) for mount in request.get("mounts") or [])),
        ("command", " ".join(safe(word) for word in request.get("command") or [])),
        ("folder", safe(request.get("workdir"))),
        ("env", " ".join(f"{safe(key)}={safe(value)}" for key, value in (request.get("env") or {}).items())),
        ("retries", safe(request.get("retry") or "")),
        ("priority", safe(session.get("priority") or "")),
        ("preemptible", "yes" if request.get("preemptible") else ""),
        ("together", f"{safe(request['together'])} start at once or not at all" if request.get("together") else ""),
        ("preempted", safe(session.get("preempted") or "")),
        ("after", " ".join(safe(one) for one in request.get("after") or [])),
        ("place", safe(session.get("place"))),
        ("node", node_of(session)),
        ("given", _given(session.get("seat"))),
        *((f"gpu {safe(gpu.get('index'))}", _gpu(gpu)) for gpu in (session.get("seat") or {}).get("gpus") or []),
        *(("note", note) for note in share_notes(session)),
        ("submitted", clock_of(session.get("submitted_at"))),
        ("started", clock_of(session.get("started_at"))),
        ("ended", clock_of(session.get("ended_at"))),
        ("attempt", safe(session.get("attempt"))),
    ]


def _idle(idle: Record) -> str:
    step = f"{safe(idle['step'])} since {clock_of(idle.get('since'))}" if idle.get("step") else ""
    kept = f"kept until {clock_of(idle['kept_until'])}" if idle.get("kept_until") else ""
    return ", ".join(words for words in (step, kept) if words)


def _given(seat: Record | None) -> str:
    return "" if seat is None else f"{safe(seat.get('cpus'))} CPUs, {show_size(int(seat.get('memory_bytes') or 0))} of memory"


def _gpu(gpu: Record) -> Text:
    """`GPU-1234 0.5 20 GiB, enforced: memory, sm simulated`: always with what is held to and what is only counted."""
    memory = gpu.get("memory_bytes")
    parts = [safe(gpu.get("uuid")), share_words(gpu.get("share")), "" if memory is None else show_size(int(memory))]
    words = " ".join(part for part in parts if part)
    words += f" by {safe(gpu['sharing'])}" if gpu.get("sharing") and gpu.get("share") != 1 else ""
    for name in ("enforced", "accounted"):
        if gpu.get(name):
            words += f", {name}: " + " ".join(safe(one) for one in gpu[name])
    return with_simulated(words, bool(gpu.get("simulated")))


def _stop(
    ctx: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME...", help="Names or ids.", autocompletion=session_names)] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of yours.")] = False,
    as_json: AsJson = False,
) -> None:
    """Stop sessions, waiting or running: all at once, so that none of them starts in another's place."""
    if bool(names) == everything:
        found = "names and --all" if names else "no name"
        raise BadInput(f"stop: found {found}", "Write the names of sessions, or --all for all of yours.")
    with connect(ctx) as fairy:
        answer = fairy.stop_all(None if everything else names)
    if as_json:
        print_json(answer)
    else:
        for session in answer["items"]:
            print(f"{safe(session['name'])} {safe(session['state'])}: {safe(session.get('why')) or 'told to stop'}")
    for missing in answer["missing"]:
        say(f"fairy: {missing['detail']}")
    raise typer.Exit(NO_SUCH_THING if answer["missing"] else 0)


ps = one_command(_ps, "fairy ps\nfairy ps -a --json")
show = one_command(_show, "fairy show brave-otter")
stop = one_command(_stop, "fairy stop brave-otter\nfairy stop --all")
