"""`fairy free` and `fairy queue`: what there is, and who waits for it."""
from datetime import UTC, datetime

import typer
from rich.text import Text

from gpufairy.cli.options import AsJson, connect, one_command
from gpufairy.cli.tables import print_table, with_simulated
from gpufairy.cli.words import age_of, print_json, range_words, share_words
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe
from gpufairy.core.amounts import show_size


def _free(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Show what is free now, and who holds the rest."""
    with connect(ctx) as fairy:
        nodes = fairy.free()
    if as_json:
        print_json({"items": nodes})
    elif not nodes:
        print("No nodes. The server has none to offer yet; an admin sees more with `fairy node list`.")
    else:
        print_table(["NODE", "GPU", "KIND", "FREE", "MEMORY FREE", "CPUS FREE", "HELD BY"], [row for node in nodes for row in _rows(node)])


def _rows(node: Record) -> list[list[str | Text]]:
    name = safe(node["node"]) if node.get("state") in (None, "ready") else f"{safe(node['node'])} ({safe(node['state'])})"
    if not node["cards"]:
        memory = node.get("memory_bytes")
        return [[name, "none", "", "0", "" if memory is None else show_size(int(memory)), safe(node.get("cpus")), safe(node.get("why"))]]
    return [_card_row(name, node, part) for card in node["cards"] for part in _parts(card)]


def _parts(card: Record) -> list[Record]:
    """A GPU of a watched host that is cut by MIG is used by its instances: each is free or not by itself."""
    cut = [one for one in card.get("instances") or [] if one.get("now")] if card.get("fgpu") is None else []
    return [{**one, "index": one.get("label"), "kind": one.get("profile"), **_left(one)} for one in cut] or [card]


def _left(one: Record) -> Record:
    total, used, free = one.get("memory_bytes"), one.get("memory_used_bytes"), (one.get("now") or {}).get("free")
    left = None if total is None or used is None else total - used
    return {"free_memory_bytes": left, "free_share": None if free is None else int(free), "fgpu": None}


def _card_row(name: str, node: Record, card: Record) -> list[str | Text]:
    memory = card.get("free_memory_bytes")
    return [
        name,
        safe(card.get("index")),
        with_simulated(safe(card.get("kind")), bool(card.get("simulated"))),
        share_words(card.get("free_share")),
        "" if memory is None else show_size(int(memory)),
        safe(node.get("cpus")),
        ", ".join(_holder(holder) for holder in card.get("holders") or []) or _not_handed_out(card),
    ]


def _not_handed_out(card: Record) -> str:
    """Nobody holds it, and yet somebody is on it, or nobody can tell."""
    now = card.get("now") or {}
    unread = not card.get("processes") and card.get("fgpu") is not None  # of ours, nothing read says nothing: the queue decides
    return "" if now.get("free") or unread else safe(now.get("why"))


def _holder(holder: Record) -> str:
    part = safe(holder.get("profile")) or share_words(holder.get("share"))
    name = f"/{safe(holder['session'])}" if holder.get("session") else ""
    return f"{safe(holder.get('owner'))}{name} {part}".strip()


def _queue(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Show who waits, in turn."""
    with connect(ctx) as fairy:
        answer = fairy.queue()
    if as_json:
        print_json(answer)
    elif not answer["items"]:
        print("Nobody waits.")
    else:
        now = datetime.now(UTC)
        print_table(["PLACE", "NAME", "OWNER", "GPUS", "WAITS", "START ABOUT", "WHY"], [_place(item, now) for item in answer["items"]])
        if (more := answer.get("waiting", 0) - len(answer["items"])) > 0:
            print(f"and {more} more; `fairy why NAME` tells where one of yours stands")


def _place(item: Record, now: datetime) -> list[str | Text]:
    known = [safe(item.get(name)) for name in ("place", "name", "owner", "gpus")]
    return [*known, age_of(item.get("since"), now), range_words(item) or "not known", safe(item.get("why"))]


free = one_command(_free, "fairy free")
queue = one_command(_queue, "fairy queue")
