"""`fairy why`: what stands between a session and its GPUs, node by node."""
from datetime import UTC, datetime

import typer

from gpufairy.cli.options import AsJson, Name, connect, one_command
from gpufairy.cli.tables import print_table
from gpufairy.cli.words import clock_of, forecast_words, print_json
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe


def _why(ctx: typer.Context, name: Name, as_json: AsJson = False) -> None:
    """Say why a session waits, and until when."""
    with connect(ctx) as fairy:
        answer = fairy.why(name)
    if as_json:
        print_json(answer)
        return
    print(safe(answer.get("summary")))
    if answer.get("place") is not None:
        print(f"place {safe(answer['place'])} of {safe(answer.get('of'))}")
    if forecast := forecast_words(answer, datetime.now(UTC)):
        print(": ".join(part for part in (forecast, safe(answer.get("forecast_why"))) if part))
    elif answer.get("forecast_why"):
        print(f"start {safe(answer['forecast_why'])}{_not_before(answer)}")
    if answer.get("own_time"):
        print(safe(answer["own_time"]))
    _print_nodes(answer)
    if answer.get("next"):
        print(f"→ {safe(answer['next'])}")
    for other in (answer.get("helps") or [])[1:]:  # the first is in `next`
        print(f"  or: {safe(other)}")


def _not_before(answer: Record) -> str:
    low = clock_of(answer.get("forecast_low"))
    return f"; not before {low}" if low else ""


def _print_nodes(answer: Record) -> None:
    nodes = answer.get("nodes") or []
    if nodes:
        print_table(["NODE", "WHY NOT"], [(safe(node.get("node")), safe(node.get("refusal"))) for node in nodes])
    if answer.get("more_nodes"):
        print(f"and {safe(answer['more_nodes'])} more nodes")


why = one_command(_why, "fairy why brave-otter")
