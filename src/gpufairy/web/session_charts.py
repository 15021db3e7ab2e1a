"""What a session held and used, over the last hour or its life, as charts."""
from collections.abc import Callable, Sequence
from datetime import timedelta

from gpufairy.control.history import Chronicle
from gpufairy.control.house import House
from gpufairy.core.amounts import show_size
from gpufairy.core.series import Kind, Series
from gpufairy.core.session import Session
from gpufairy.web.chart import Chart, line

LONGEST = timedelta(hours=1)  # of one that runs; of one that ended, its whole life
SHORTEST = timedelta(minutes=2)


async def session_charts(house: House, session: Session) -> tuple[Chart, ...]:
    """None of one that never had a seat."""
    if session.placed_at is None:
        return ()
    until = session.ended_at or house.clock()
    since = session.placed_at if session.ended_at is not None else max(session.placed_at, until - LONGEST)
    series = await Chronicle(house).series(Kind.SESSION, session.id, min(since, until - SHORTEST), until)
    return tuple(chart for chart in (gpu_chart(series), memory_chart(series), cpu_chart(series)) if chart is not None)


def gpu_chart(series: Series) -> Chart | None:
    held, used = means(series, "gpus_held"), means(series, "gpus_used")
    if not any(held) and not any(used):
        return None
    top = max([1.0, *known(held), *known(used)])
    words = f"{figure(last(used))} of {figure(last(held))}"
    lines = (line("held", "held", held, top), line("used", "used", used, top))
    return Chart("GPUs used, of those held", words, f"{top:g}", lines, f"GPUs used: {words} held; null where it is not known")


def memory_chart(series: Series) -> Chart | None:
    return plain(series, "gpu_memory_bytes", "GPU memory", lambda size: show_size(int(size)))


def cpu_chart(series: Series) -> Chart | None:
    return plain(series, "cpus", "CPUs used", lambda cpus: f"{cpus:.2f}")


def plain(series: Series, column: str, title: str, words: Callable[[float], str]) -> Chart | None:
    values = means(series, column)
    if not known(values):
        return None
    top, newest = max(known(values)) or 1.0, last(values)
    now = "not known" if newest is None else words(newest)
    return Chart(title, now, words(top), (line(title, "used", values, top),), f"{title}: {now}")


def means(series: Series, column: str) -> Sequence[float | None]:
    found = series.columns.get(column)
    return () if found is None else found.mean


def known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def last(values: Sequence[float | None]) -> float | None:
    """Of the newest three: the last may not be whole yet."""
    return next((value for value in reversed(values[-3:]) if value is not None), None)


def figure(value: float | None) -> str:
    return "not known" if value is None else f"{value:.2f}"
