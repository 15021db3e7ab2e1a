"""`fairy mig`: how GPUs are cut, who holds which instance, and cutting them anew."""
import sys
from datetime import UTC, datetime
from typing import Annotated

import typer

from gpufairy.cli.exits import REFUSED, say
from gpufairy.cli.mig_bar import print_gpu, shown_mix
from gpufairy.cli.options import AsJson, connect, example_text, group
from gpufairy.cli.words import print_json
from gpufairy.client import Fairy
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe
from gpufairy.core.errors import BadInput
from gpufairy.core.mig_plain import plan_to_plain
from gpufairy.core.mig_plan import CutNow, parse_wanted, plan_cut
from gpufairy.core.names import nearest
from gpufairy.devices.kinds import kind_named
from gpufairy.devices.mig_tables import mig_tables

app = group(
    "MIG: how GPUs are cut, who holds which instance, and cutting them anew.",
    "fairy mig show\nfairy mig plan --kind H200 --want 3g.71gb,1g.18gb",
    means_something_alone=True,
)  # fmt: skip

WHOLE = "whole"
Gpu = Annotated[str, typer.Option("--gpu", metavar="UUID", help="The GPU, as `fairy mig show` has it; or its number.")]
Want = Annotated[str, typer.Option("--want", metavar="PROFILES", help="3g.71gb,1g.18gb or 7x1g.18gb; `whole`: out of MIG mode.")]


@app.callback(invoke_without_command=True)
def nothing_said(ctx: typer.Context) -> None:
    if ctx.invoked_subcommand is None:
        show(ctx)


@app.command(epilog=example_text("fairy mig show"))
def show(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Draw every GPU that MIG can cut: its slices, who holds them, what still fits, what a change would cost."""
    with connect(ctx) as fairy:
        gpus = fairy.mig()
    if as_json:
        print_json({"items": gpus})
    elif not gpus:
        print("No GPU of this server can be cut by MIG.")
    else:
        for number, gpu in enumerate(gpus):
            print_gpu(gpu, datetime.now(UTC), first=number == 0)


@app.command(epilog=example_text("fairy mig plan --kind H200 --want 3g.71gb,1g.18gb\nfairy mig plan --gpu GPU-5f… --want 7x1g.18gb"))
def plan(
    ctx: typer.Context,
    want: Want,
    gpu: Annotated[str | None, typer.Option("--gpu", metavar="UUID", help="A GPU of the server, as it is cut now.")] = None,
    kind: Annotated[str | None, typer.Option("--kind", metavar="KIND", help="An empty GPU of this kind; needs no server.")] = None,
    as_json: AsJson = False,
) -> None:
    """Find where profiles would go, with the fewest idle instances given up. Changes nothing."""
    if (gpu is None) == (kind is None):
        raise BadInput("plan: say --gpu or --kind, one of them", "fairy mig plan --kind H200 --want 3g.71gb,1g.18gb")
    wanted = wanted_of(want)
    if kind is not None:
        found = plan_to_plain(plan_cut(empty_gpu(kind), wanted))
    else:
        with connect(ctx) as fairy:
            found = fairy.mig_plan(_uuid(fairy, str(gpu)), wanted)
    if as_json:
        print_json(found)
    else:
        _say_plan(found)


@app.command(epilog=example_text("fairy mig apply --gpu GPU-5f… --want 3g.71gb,3g.71gb"))
def apply(
    ctx: typer.Context,
    gpu: Gpu,
    want: Want,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Cut a GPU anew (admins). What is in use is never touched; what fails is undone."""
    wanted = wanted_of(want)
    with connect(ctx) as fairy:
        uuid = _uuid(fairy, gpu)
        found = fairy.mig_plan(uuid, wanted)
        if found["fits"] and not yes and not _confirmed(found, as_json):
            return
        done = fairy.mig_apply(uuid, wanted)  # what does not fit is refused there, in the same words for all
    if as_json:
        print_json(done)
        return
    cut = shown_mix([one["profile"] for one in done["after"]]) if wanted != (WHOLE,) else "whole, out of MIG mode"
    print(f"{'cut as' if done['changed'] else 'nothing to do: it is'} {cut}{' (simulated)' if done['simulated'] else ''}")
    if done.get("note"):
        print(f"  → {safe(done['note'])}")


@app.command(epilog=example_text("fairy mig auto on GPU-5f…\nfairy mig auto off --all"))
def auto(
    ctx: typer.Context,
    state: Annotated[str, typer.Argument(metavar="on|off")],
    gpus: Annotated[list[str] | None, typer.Argument(metavar="GPU…", help="UUIDs or numbers.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every GPU of the server that MIG can cut; `on`: those in MIG mode.")] = False,
) -> None:
    """Let idle GPUs in MIG mode be cut for what waits in the queue, or no longer (admins)."""
    if state not in ("on", "off") or bool(gpus) == every:
        raise BadInput("auto: say on or off, and which GPUs, or --all", "fairy mig auto on GPU-5f…")
    with connect(ctx) as fairy:
        uuids = _all_that_may(fairy, state) if every else [_uuid(fairy, name) for name in gpus or ()]
        if not uuids:
            raise typer.Exit(REFUSED)
        fairy.mig_auto(uuids, state == "on")
    print(f"the cut of {len(uuids)} {'GPU' if len(uuids) == 1 else 'GPUs'} {'follows the queue' if state == 'on' else 'stays as it is'}")


def _all_that_may(fairy: Fairy, state: str) -> list[str]:
    """To follow the queue only those in MIG mode: nothing puts a GPU into it by itself. The others are said."""
    every = fairy.mig()
    left = [] if state == "off" else [gpu for gpu in every if not gpu["mig"]]
    if not every:
        say("fairy: no GPU of this server can be cut by MIG")
    for gpu in left:
        say(f"fairy: {gpu['node']} GPU {gpu['index']} is not in MIG mode, and is left as it is")
        say(f"  → To cut it: `fairy mig apply --gpu {gpu['uuid']} --want PROFILES`.")
    return [str(gpu["uuid"]) for gpu in every if gpu not in left]


def wanted_of(text: str) -> tuple[str, ...]:
    return (WHOLE,) if text.strip().lower() == WHOLE else parse_wanted(text)


def empty_gpu(kind: str) -> CutNow:
    found, tables = kind_named(kind), mig_tables()
    if found is None or found not in tables:
        said = f"--kind: {kind[:40]!r} is no kind of GPU that MIG can cut{nearest(kind, tables)}"
        raise BadInput(said, f"These can: {', '.join(tables)}.")
    return CutNow(found, tables[found])


def _uuid(fairy: Fairy, text: str) -> str:
    """A number is that of the GPU on the only host; else it is taken for a UUID, and the server knows whether it is one."""
    if not text.isdecimal():
        return text
    found = [gpu["uuid"] for gpu in fairy.mig() if gpu["index"] == int(text)]
    if len(found) != 1:
        raise BadInput(f"--gpu: {len(found)} GPUs have the number {text[:20]}", "Name its UUID: see `fairy mig show`.")
    return str(found[0])


def _confirmed(found: Record, as_json: bool) -> bool:
    if not found["made"] and not found["touched"]:
        return True
    if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadInput("apply: nothing was cut, since there is no terminal to ask on", "See `fairy mig plan`, then add --yes.")
    _say_plan(found)
    return typer.confirm("Cut it so?")


def _say_plan(found: Record) -> None:
    if not found["fits"]:
        print(f"It does not fit: {safe(found.get('why'))}")
        return
    new = [(one["profile"], one["start"]) for one in found["made"]]
    for one in found["placements"]:
        place = f"slice {one['start']}" if one["size"] == 1 else f"slices {one['start']}-{one['start'] + one['size'] - 1}"
        print(f"{safe(one['profile']):<12} {place:<12} {'new' if (one['profile'], one['start']) in new else 'is there'}")
    gone = [safe(uuid) for uuid in found["touched"]]
    print(f"{len(gone)} idle {'instance goes' if len(gone) == 1 else 'instances go'}: {', '.join(gone)}" if gone else "No instance goes.")
