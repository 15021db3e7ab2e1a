"""Users and sessions as lines: what each holds and uses, over all GPUs of all hosts."""
from gpufairy.client.gpu_rows import GpuRow, Held, OnGpu
from gpufairy.client.values import safe
from gpufairy.tui.cells import Cell, Column, Line, Table, cell, joined
from gpufairy.tui.order import natural
from gpufairy.tui.palette import hue_of
from gpufairy.tui.scene import Scene
from gpufairy.tui.tally import Amount, Tally, tallies
from gpufairy.tui.words import NOT_KNOWN, figure, percent, size

UNKNOWN_USER = "not known"
UNNAMED = "name not shown"
MOST_HOSTS = 4  # named on one line; the rest are counted

USER_COLUMNS = (
    Column("user", "USER", 18, "e"),
    Column("gpus", "GPUS", 6, "g", right=True, falling=True),
    Column("held", "HELD", 8, "l", right=True, falling=True),
    Column("used", "USED", 8, "u", right=True, falling=True),
    Column("memory", "GPU MEMORY", 12, "m", right=True, falling=True),
    Column("idle", "IDLE", 6, "i", right=True, falling=True),
    Column("outside", "OUTSIDE", 8, "o", right=True, falling=True),
    Column("processes", "PROCESSES", 10, "c", right=True, falling=True, spare=2),
    Column("cpus", "CPUS", 7, "p", right=True, falling=True, spare=3),
    Column("hosts", "HOSTS", 12, "h", spare=1),
)
SESSION_COLUMNS = (
    Column("session", "SESSION", 24, "s"),
    Column("user", "USER", 16, "e"),
    Column("host", "HOST", 14, "h"),
    Column("gpus", "GPUS", 14, "g"),
    Column("held", "HELD", 8, "l", right=True, falling=True),
    Column("used", "USED", 8, "u", right=True, falling=True),
    Column("utilisation", "UTIL", 6, "t", right=True, falling=True),
    Column("memory", "GPU MEMORY", 12, "m", right=True, falling=True),
    Column("processes", "PROCESSES", 10, "c", right=True, falling=True, spare=2),
    Column("state", "STATE", 10, spare=1),
)


def user_table(scene: Scene) -> Table:
    found = tallies(scene.rows, lambda _, held: held.user or "", lambda _, one: one.user or "")
    loads = _cpus(scene)
    return Table(USER_COLUMNS, [_user_line(user, tally, loads.get(user)) for user, tally in sorted(found.items())])


def _user_line(user: str, tally: Tally, cpus: float | None) -> Line:
    cells = (
        cell(safe(user) if user else UNKNOWN_USER, hue_of(user) if user else "soft"),
        cell(str(len(tally.devices))),
        cell(figure(tally.held)),
        cell(at_least(tally.used), "wait" if tally.idle else ""),
        cell(at_least_size(tally.memory_bytes)),
        cell(str(tally.idle), "wait" if tally.idle else "soft"),
        cell(str(tally.outside), "wait" if tally.outside else "soft"),
        cell(str(tally.processes)),
        cell(figure(cpus, 1)),
        cell(hosts_words(tally), "soft"),
    )
    values = {
        "user": natural(user) if user else None, "gpus": len(tally.devices), "held": tally.held, "used": tally.used.known,
        "memory": tally.memory_bytes.known, "idle": tally.idle, "outside": tally.outside, "processes": tally.processes, "cpus": cpus,
        "hosts": natural(hosts_words(tally)),
    }  # fmt: skip
    state = [word for word, number in (("idle", tally.idle), ("outside", tally.outside)) if number]
    return Line(user, cells, values, " ".join([user, *tally.hosts, *state]).casefold())


def _cpus(scene: Scene) -> dict[str, float]:
    """What the processes of each user take of the hosts' CPUs."""
    used: dict[str, float] = {}
    for node in scene.nodes:
        for load in (node.get("host") or {}).get("users") or []:
            if load.get("cpus") is not None:
                used[load.get("user")] = used.get(load.get("user"), 0.0) + load["cpus"]
    return used


SessionKey = tuple[str, str, str]  # host, user, name; empty: not known or not shown


def session_table(scene: Scene) -> Table:
    found = tallies(scene.rows, _held_session, session_of)
    return Table(SESSION_COLUMNS, [_session_line(key, tally) for key, tally in sorted(found.items())])


def _held_session(row: GpuRow, held: Held) -> SessionKey:
    return row.node, held.user or "", held.session or ""


def session_of(row: GpuRow, one: OnGpu) -> SessionKey | None:
    """None: it runs outside of any session or pod."""
    return None if one.outside else (row.node, one.user or "", one.session or one.pod or "")


def _session_line(key: SessionKey, tally: Tally) -> Line:
    host, user, name = key
    labels = ", ".join(label for _, label in tally.devices) or NOT_KNOWN
    idle = bool(tally.devices) and tally.idle == len(tally.devices)
    unused = not tally.processes and tally.used.known == 0.0
    cells = (
        cell(safe(name)) if name else cell(UNNAMED, "soft"),
        cell(safe(user) if user else UNKNOWN_USER, hue_of(user) if user else "soft"),
        cell(safe(host)),
        cell(labels, "soft"),
        cell(figure(tally.held)),
        cell(at_least(tally.used)),
        cell(percent(tally.utilisation), "wait" if idle else ""),
        cell(at_least_size(tally.memory_bytes)),
        cell(str(tally.processes)),
        Cell(joined([[("idle", "bold wait")] if idle else [], [("no process", "wait")] if unused else []])),
    )
    values = {
        "session": natural(name) if name else None, "user": natural(user) if user else None, "host": natural(host), "gpus": natural(labels),
        "held": tally.held, "used": tally.used.known, "utilisation": tally.utilisation, "memory": tally.memory_bytes.known,
        "processes": tally.processes,
    }  # fmt: skip
    return Line("/".join(key), cells, values, " ".join([*key, labels, "idle" if idle or unused else ""]).casefold())


def at_least(amount: Amount) -> str:
    """`≥ 1.40` where some of it is not known."""
    return NOT_KNOWN if amount.known is None else f"{'≥ ' if amount.partly else ''}{amount.known:.2f}"


def at_least_size(amount: Amount) -> str:
    return NOT_KNOWN if amount.known is None else f"{'≥ ' if amount.partly else ''}{size(amount.known)}"


def hosts_words(tally: Tally) -> str:
    names = [safe(name) for name in tally.hosts]
    return ", ".join(names[:MOST_HOSTS]) + (f" +{len(names) - MOST_HOSTS}" if len(names) > MOST_HOSTS else "")
