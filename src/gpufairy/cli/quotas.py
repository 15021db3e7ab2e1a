"""`fairy quota`: what users and teams may hold at most, and what of it they use now."""
from typing import Annotated

import typer

from gpufairy.cli.exits import say
from gpufairy.cli.options import AsJson, connect, example_text, group
from gpufairy.cli.tables import print_table
from gpufairy.cli.words import print_json
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe
from gpufairy.core.amounts import show_size

app = group(
    "Quotas: what users and teams may hold at most. Preemptible sessions may borrow beyond them.",
    "fairy quota set user:student1 --gpus 4 --gpu-hours 100 --sessions 5\nfairy quota set team:nlp --gpus 4 --gpu-kind A100",
)

COLUMNS = ["OF", "KIND", "GPUS", "GPU-HOURS IN 7 DAYS", "SESSIONS", "DISK"]
BOUNDS = ("gpus", "gpu_hours", "sessions")
Of = Annotated[str, typer.Argument(metavar="OF", help="user:NAME or team:NAME; user:* or team:* for each without one of their own.")]
Kind = Annotated[str | None, typer.Option("--gpu-kind", metavar="KIND", help="Of this kind of GPU, such as A100. Else of any.")]
Gpus = Annotated[str | None, typer.Option("--gpus", metavar="N", help="GPUs held at once, such as 4 or 0.5; none: no bound.")]
Hours = Annotated[str | None, typer.Option("--gpu-hours", metavar="N", help="GPU-hours held in any 7 days; none: no bound.")]
Sessions = Annotated[str | None, typer.Option("--sessions", metavar="N", help="Sessions that run at once; none: no bound.")]
Disk = Annotated[str | None, typer.Option("--disk", metavar="SIZE", help="Of a user's home, such as 100GiB; none: no bound.")]
User = Annotated[str | None, typer.Option("--user", metavar="USER", help="Those that count for this user.")]


@app.command("set", epilog=example_text("fairy quota set user:student1 --gpus 4 --sessions 5\nfairy quota set user:student1 --disk 100GiB"))
def set_quota(
    ctx: typer.Context, of: Of, *,
    gpus: Gpus = None, gpu_hours: Hours = None, sessions: Sessions = None, gpu_kind: Kind = None, disk: Disk = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Say what a user or team may hold at most. What is not said stays as it was; what runs, runs on."""
    asked = {"of": of, "gpu_kind": gpu_kind, "gpus": gpus, "gpu_hours": gpu_hours, "sessions": sessions, "disk": disk}
    with connect(ctx) as fairy:
        _print([fairy.set_quota({name: value for name, value in asked.items() if value is not None})], as_json)


@app.command("list", epilog=example_text("fairy quota list\nfairy quota list --user student1"))
def list_quotas(ctx: typer.Context, user: User = None, as_json: AsJson = False) -> None:
    """List quotas, and what of each is used now. Users see those that count for them."""
    with connect(ctx) as fairy:
        quotas = fairy.quotas(user)
    if as_json:
        print_json({"items": quotas})
    elif not quotas:
        print("No quotas: GPUs are shared by turns alone.")
    else:
        _print(quotas, as_json=False)


@app.command(epilog=example_text("fairy quota unset user:student1"))
def unset(ctx: typer.Context, of: Of, gpu_kind: Kind = None) -> None:
    """Take a quota away."""
    with connect(ctx) as fairy:
        fairy.unset_quota(of, gpu_kind)
    print(f"The quota of {safe(of)}{f' for {safe(gpu_kind)}' if gpu_kind else ''} is gone.")


def _print(quotas: list[Record], as_json: bool) -> None:
    if as_json:
        print_json(quotas[0])
        return
    print_table(COLUMNS, [_row(quota) for quota in quotas])
    for quota in quotas:
        for note in quota["notes"]:
            say(f"{safe(quota['of'])}: {safe(note)}")


def _row(quota: Record) -> list[str]:
    """One that is for each is shown to admins without what is used: each uses their own."""
    each = "" if quota["who"] == quota["of"] else f" ({safe(quota['who']).partition(':')[2]})"
    kind = "any" if quota["gpu_kind"] == "*" else safe(quota["gpu_kind"])
    return [safe(quota["of"]) + each, kind, *(_used_of(quota, bound) for bound in BOUNDS), _disk_of(quota)]


def _disk_of(quota: Record) -> str:
    return "" if quota.get("disk_bytes") is None else show_size(int(quota["disk_bytes"]))


def _used_of(quota: Record, bound: str) -> str:
    """`2 of 4`; where nothing bounds it, nothing."""
    if quota[bound] is None:
        return ""
    return f"{quota[bound]:g}" if quota["used"] is None else f"{quota['used'][bound]:.6g} of {quota[bound]:g}"
