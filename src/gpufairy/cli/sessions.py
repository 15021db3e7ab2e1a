"""`fairy ps`, `show` and `stop`: the sessions that are there."""
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.text import Text

from gpufairy.cli.exits import exit_code_of, say_error
from gpufairy.cli.options import AsJson, Name, Names, connect, one_command
from gpufairy.cli.tables import gpus_text, print_pairs, print_table, state_text, with_simulated
from gpufairy.cli.words import age_of, clock_of, forecast_words, node_of, print_json, safe, share_words
from gpufairy.client.protocol import Record
from gpufairy.core.amounts import show_size
from gpufairy.core.errors import FairyError

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
    if as_json:
        print_json(session)
    else:
        print_pairs(_pairs(session, datetime.now(UTC)))


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
        ("exit code", "" if code is None else str(code)),
        ("forecast", forecast_words(session, now)),
        ("gpus asked", safe(request.get("gpus"))),
        ("cpus", safe(request.get("cpus"))),
        ("memory", "" if memory is None else show_size(int(memory))),
        ("image", safe(request.get("image"))),
        ("command", " ".join(safe(word) for word in request.get("command") or [])),
        ("node", node_of(session)),
        *((f"gpu {safe(gpu.get('index'))}", _gpu(gpu)) for gpu in (session.get("seat") or {}).get("gpus") or []),
        ("submitted", clock_of(session.get("submitted_at"))),
        ("started", clock_of(session.get("started_at"))),
        ("ended", clock_of(session.get("ended_at"))),
        ("attempt", safe(session.get("attempt"))),
    ]


def _gpu(gpu: Record) -> Text:
    """`GPU-1234 0.5 20 GiB, enforced: memory, sm simulated`: always with what is held to and what is only counted."""
    memory = gpu.get("memory_bytes")
    parts = [safe(gpu.get("uuid")), share_words(gpu.get("share")), "" if memory is None else show_size(int(memory))]
    words = " ".join(part for part in parts if part)
    for name in ("enforced", "accounted"):
        if gpu.get(name):
            words += f", {name}: " + " ".join(safe(one) for one in gpu[name])
    return with_simulated(words, bool(gpu.get("simulated")))


def _stop(ctx: typer.Context, names: Names, as_json: AsJson = False) -> None:
    """Stop sessions, waiting or running."""
    stopped, code = [], 0
    with connect(ctx) as fairy:
        for name in names:
            try:
                stopped.append(fairy.stop(name))
            except FairyError as error:  # the others are stopped all the same
                say_error(error)
                code = code or exit_code_of(error)
    if as_json:
        print_json({"items": stopped})
    else:
        for session in stopped:
            print(f"{safe(session['name'])} {safe(session['state'])}: {safe(session.get('why')) or 'told to stop'}")
    raise typer.Exit(code)


ps = one_command(_ps, "fairy ps\nfairy ps -a --json")
show = one_command(_show, "fairy show brave-otter")
stop = one_command(_stop, "fairy stop brave-otter")
