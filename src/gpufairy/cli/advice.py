"""`fairy advice`: what your sessions could do better, with the figures that say so."""
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated

import typer
from rich.text import Text

from gpufairy.cli.options import AsJson, connect, one_command, session_names
from gpufairy.cli.tables import with_simulated
from gpufairy.cli.words import print_json
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe
from gpufairy.core.amounts import show_count, show_duration, show_size

OfSession = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="This session alone; it may be over.", autocompletion=session_names)
]
SURE, LIKELY = 0.85, 0.7  # of confidence


def _advice(
    ctx: typer.Context,
    name: OfSession = None,
    *,
    user: Annotated[str | None, typer.Option("--user", metavar="USER", help="This user's, for admins.")] = None,
    all_users: Annotated[bool, typer.Option("--all-users", help="Everybody's, for admins.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say what your sessions could do better: what starves a GPU, what holds one for nothing, what runs into a limit.

    It is told from readings alone. While too little is known, nothing is said.
    """
    with connect(ctx) as fairy:
        answer = fairy.advice(name, user=user, all_users=all_users)
    if as_json:
        print_json(answer)
    elif not answer["items"]:
        print(nothing_words(answer, name))
    else:
        print_advice(answer["items"], with_owner=user is not None or all_users)


def nothing_words(answer: Record, name: str | None) -> str:
    looked_at = answer.get("looked_at")
    if name is None and not looked_at:
        return "None of your sessions runs. `fairy advice NAME` looks at one that is over."
    what = safe(name) if name is not None else show_count(int(looked_at or 0), "session")
    return f"Nothing to improve is seen in {what}. A session is looked at for some minutes before anything is said."


def print_advice(items: Sequence[Record], *, with_owner: bool) -> None:
    for place, item in enumerate(items):
        if place:
            print()
        owner = f"{safe(item.get('owner'))}+" if with_owner else ""
        print(with_simulated(f"{owner}{safe(item.get('session'))}: {safe(item.get('sentence'))}", bool(item.get("simulated"))))
        print(f"  {safe(item.get('next'))}")
        print(f"  {evidence_words(item)}")


def evidence_words(item: Record) -> Text | str:
    figures = ", ".join(figure_words(one) for one in item.get("evidence") or [])
    window = show_duration(timedelta(seconds=float(item.get("window_s") or 0)))
    return f"{sure_words(float(item.get('confidence') or 0))}, by the last {window}: {figures}"


def sure_words(confidence: float) -> str:
    return "sure" if confidence >= SURE else "likely" if confidence >= LIKELY else "perhaps"


def figure_words(one: Record) -> str:
    value, limit, unit = float(one.get("value") or 0), one.get("of"), safe(one.get("unit"))
    name = safe(one.get("what")).replace("_", " ").replace("gpu", "GPU").replace("cpus", "CPUs").replace("io waited", "waited for a disk")
    return f"{name} {amount(value, unit)}" + ("" if limit is None else f" of {amount(float(limit), unit)}")


def amount(value: float, unit: str) -> str:
    match unit:
        case "ratio":
            return f"{100 * value:.0f} %"
        case "bytes":
            return show_size(int(value))
        case "bytes_per_s":
            return f"{show_size(int(value))}/s"
        case "seconds":
            return show_duration(timedelta(seconds=value))
        case "watts" | "celsius":
            return f"{value:.0f} {'W' if unit == 'watts' else '°C'}"
    return f"{value:.1f}".removesuffix(".0")


advice = one_command(_advice, "fairy advice\nfairy advice brave-otter --json")
