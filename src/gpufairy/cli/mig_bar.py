"""A GPU's cut drawn on the terminal: its memory slices as a bar, each instance where it lies, with its holder."""
from collections.abc import Sequence
from datetime import datetime

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from gpufairy.cli.tables import print_lines, with_simulated
from gpufairy.cli.words import age_of, clock_of
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe
from gpufairy.core.mig_plan import cut_words

SLICE_WIDTH = 10  # cells of one memory slice: eight of them fill a terminal of 80, and `1g.18gb` has room in one
HELD, IDLE, UNCUT = "black on green", "black on cyan", "bright_black"
CHANGES_SHOWN = 3


def print_gpu(gpu: Record, now: datetime, *, first: bool) -> None:
    lines: list[Text] = [] if first else [Text()]
    lines.append(title(gpu))
    if gpu["mig"]:
        lines += [ruler(gpu), bar(gpu), *(instance_line(one, now) for one in gpu["instances"]), *offer_lines(gpu)]
    else:
        lines.append(Text(f"  {not_cut(gpu)}"))
    lines += [Text(f"  {change_line(change)}", UNCUT) for change in (gpu.get("changes") or [])[:CHANGES_SHOWN]]
    print_lines(lines)


def title(gpu: Record) -> Text:
    kind = with_simulated(safe(gpu["kind"]), bool(gpu["simulated"]))
    mix = "cut on demand" if gpu["on_demand"] else shown_mix([one["profile"] for one in gpu["instances"]])
    said = [mix if gpu["mig"] else "MIG mode off"]
    said += ["follows the queue"] if gpu["auto"] and gpu["mig"] else []
    said += ["being cut"] if gpu["cutting"] else []
    name = f"{safe(gpu['node'])} GPU {gpu['index']}"
    return Text.assemble((name, "bold"), "  ", kind, f"  {', '.join(said)}  ", (safe(gpu["uuid"]), UNCUT))


def ruler(gpu: Record) -> Text:
    return Text("".join(f"{slice_:<{SLICE_WIDTH}}" for slice_ in range(gpu["memory_slices"])).rstrip(), UNCUT)


def bar(gpu: Record) -> Text:
    drawn, slice_ = Text(), 0
    by_start = {one["start"]: one for one in reversed(gpu["instances"])}
    while slice_ < gpu["memory_slices"]:
        one = by_start.get(slice_)
        size = one["size"] if one is not None else 1
        style = UNCUT if one is None else HELD if one["in_use"] else IDLE
        drawn.append(cell(one, size * SLICE_WIDTH - 1), style)
        drawn.append(" ")
        slice_ += size
    return drawn


def cell(one: Record | None, width: int) -> str:
    """Also without colours it must be read: `#` is held, brackets are free, dots are what nobody has cut."""
    if one is None:
        return "·" * width
    text = f"{safe(one['profile'])} {who(one)}".strip()
    inside = set_cell_size(text, width - 2) if cell_len(text) > width - 2 else text.ljust(width - 2, "=" if one["in_use"] else "-")
    return f"#{inside}#" if one["in_use"] else f"[{inside}]"


def who(one: Record) -> str:
    holder = one.get("holder")
    return safe(holder["owner"]) if holder else "in use" if one["in_use"] else ""


def instance_line(one: Record, now: datetime) -> Text:
    holder = one.get("holder") or {}
    name = f"{safe(holder.get('owner'))}/{safe(holder['session'])}" if holder.get("session") else safe(holder.get("owner"))
    since = f", for {age_of(holder.get('since'), now)}" if holder.get("since") else ""
    held = f"held by {name}{since}" if holder else "a process is on it" if one["in_use"] else "free"
    return Text(f"  {one['start']}  {safe(one['profile']):<12} {held:<36} {safe(one.get('uuid'))}".rstrip())


def offer_lines(gpu: Record) -> list[Text]:
    now = [offer for offer in gpu["offers"] if offer["fits"] and not offer["touched"]]
    cost = [offer for offer in gpu["offers"] if offer["fits"] and offer["touched"]]
    never = [offer for offer in gpu["offers"] if not offer["fits"]]
    lines = [f"  still fits: {', '.join(safe(offer['profile']) for offer in now)}"] if now else []
    lines += [f"  one more {safe(offer['profile'])}: {counted(offer['touched'])} would go" for offer in cost]
    lines += [f"  not now: {', '.join(safe(offer['profile']) for offer in never)}"] if never else []
    return [Text(line) for line in lines]


def counted(touched: int) -> str:
    return "1 idle instance" if touched == 1 else f"{touched} idle instances"


def not_cut(gpu: Record) -> str:
    held = ", ".join(dict.fromkeys(safe(holder["owner"]) for holder in gpu["held"] if holder))
    names = ", ".join(safe(profile["name"]) for profile in gpu["profiles"])
    return f"held by {held}; it could be cut into {names} when it is free" if held else f"it could be cut into {names}"


def change_line(change: Record) -> str:
    by = f" (by {safe(change['actor'])})" if change.get("actor") else ""
    return f"{clock_of(change.get('at'))}  {safe(change.get('what')).replace('_', ' ')}: {safe(change.get('why'))}{by}"


def shown_mix(profiles: Sequence[str]) -> str:
    return safe(cut_words(profiles)) if profiles else "not cut yet"
