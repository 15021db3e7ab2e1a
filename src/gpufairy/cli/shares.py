"""`fairy share`: how many fGPU a GPU is, by what means fractions of it are held, and what was found enforced."""
from typing import Annotated

import typer
from rich.text import Text

from gpufairy.cli.options import AsJson, connect, example_text, group
from gpufairy.cli.selftest import who_tests
from gpufairy.cli.tables import print_table, with_simulated
from gpufairy.cli.words import clock_of, print_json
from gpufairy.client import Fairy
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe
from gpufairy.core.amounts import show_size

app = group(
    "How GPUs are shared: how many fGPU each is, and by what means fractions are held.", "fairy share set H200-141GB --fgpu 2",
    means_something_alone=True,
)  # fmt: skip

COLUMNS = ["NODE", "GPU", "KIND", "FGPU", "ONE FGPU", "SHARED BY", "ENFORCED", "ACCOUNTED", "TESTED"]
Of = Annotated[str, typer.Argument(metavar="GPU", help="UUID of a GPU, a kind such as A100-40GB, or * for all.")]
Fgpu = Annotated[float | None, typer.Option("--fgpu", metavar="N", help="How many fGPU one of them is, such as 5.")]
By = Annotated[str | None, typer.Option("--by", metavar="mps|time", help="mps: parts at the same time. time: in turns, only accounted.")]


@app.callback(invoke_without_command=True)
def nothing_said(ctx: typer.Context, as_json: AsJson = False) -> None:
    if ctx.invoked_subcommand is None:
        show(ctx, as_json)


@app.command(epilog=example_text("fairy share show"))
def show(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Show how every GPU is shared, and what holds."""
    with connect(ctx) as fairy:
        _print(fairy, fairy.shares(), as_json)


@app.command("set", epilog=example_text("fairy share set A100-40GB --fgpu 5"))
def set_share(ctx: typer.Context, of: Of = "*", fgpu: Fgpu = None, by: By = None, as_json: AsJson = False) -> None:
    """Say how a GPU, a kind or all are shared. Sessions that run keep what they have."""
    with connect(ctx) as fairy:
        _print(fairy, fairy.set_share(of, fgpu, by), as_json)


@app.command(epilog=example_text("fairy share clear A100-40GB"))
def clear(ctx: typer.Context, of: Of, as_json: AsJson = False) -> None:
    """Take back what was said of a GPU, a kind or all."""
    with connect(ctx) as fairy:
        _print(fairy, fairy.clear_share(of), as_json)


def _print(fairy: Fairy, answer: Record, as_json: bool) -> None:
    if as_json:
        print_json(answer)
        return
    if not answer["items"]:
        print("No GPU here that sessions could share.")
        return
    print_table(COLUMNS, [_row(gpu) for gpu in answer["items"]])
    if answer["rules"]:
        print(f"rules: {'; '.join(map(rule_words, answer['rules']))}")
    for gpu in answer["items"]:
        if gpu.get("mps"):
            print(f"{safe(gpu['node'])} GPU {gpu['index']}: {mps_words(gpu['mps'])}")
    if any(not gpu["simulated"] and gpu["tested_at"] is None for gpu in answer["items"]):
        print(f"Whether shares hold was not tested yet. {who_tests(fairy)}")
    if any(gpu["sharing"] == "mps" for gpu in answer["items"]):
        print(safe(answer["note"]))


def rule_words(rule: Record) -> str:
    """`A100-40GB is 5 fGPU, by time`; what a rule leaves open is not told."""
    parts = [f"is {rule['fgpu']:g} fGPU" if rule["fgpu"] is not None else "", f"by {safe(rule['sharing'])}" if rule["sharing"] else ""]
    return f"{safe(rule['of'])} {', '.join(part for part in parts if part)}"


def mps_words(mps: Record) -> str:
    caps, since = mps["caps"], f" since {clock_of(mps['since'])}" if mps["since"] else ""
    most = f", {caps['sm_percent']} % and {show_size(int(caps['memory_bytes']))} at most for each" if caps else ""
    runs = f"MPS runs{since}" if mps["daemon_pid"] else "MPS does not run"
    trouble = f"; trouble: {safe(mps['trouble'])}" if mps["trouble"] else ""
    return f"{runs}, {mps['clients']} of {mps['client_limit']} programs use it{most}{trouble}"


def _row(gpu: Record) -> list[str | Text]:
    return [
        safe(gpu["node"]),
        f"{gpu['index']} {safe(gpu['uuid'])}",
        with_simulated(safe(gpu["kind"]), bool(gpu["simulated"])),
        f"{gpu['fgpu']:g}",
        show_size(int(gpu["fgpu_memory_bytes"])),
        safe(gpu["sharing"]),
        ", ".join(map(safe, gpu["enforced"])) or "nothing",
        ", ".join(map(safe, gpu["accounted"])),
        "never" if gpu["tested_at"] is None else clock_of(gpu["tested_at"]),
    ]
