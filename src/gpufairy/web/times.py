"""Times as whoever looks reads them: by the clock of their zone, lengths in one unit, days by their names."""
from datetime import datetime, timedelta

from gpufairy.web.asked import asked
from gpufairy.web.speech import _, ngettext
from gpufairy.web.words import UNBROKEN

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400


def here(at: datetime) -> datetime:
    """In the zone of whoever looks; where that is not known, the server's."""
    return at.astimezone(asked().zone)


def clock(at: datetime, now: datetime) -> str:
    """`14:20`; with the day where it is another."""
    then, today = here(at), here(now)
    if then.date() == today.date():
        return f"{then:%H:%M}"
    return f"{day_words(then)}{UNBROKEN}{then:%H:%M}"


def day_words(at: datetime) -> str:
    """`Fri 20 Nov`. `at`: in the reader's zone."""
    days = (_("Mon"), _("Tue"), _("Wed"), _("Thu"), _("Fri"), _("Sat"), _("Sun"))
    months = (
        _("Jan"), _("Feb"), _("Mar"), _("Apr"), _("May"), _("Jun"), _("Jul"), _("Aug"), _("Sep"), _("Oct"), _("Nov"), _("Dec"),
    )  # fmt: skip
    told = _("{weekday} {day} {month}").format(weekday=days[at.weekday()], month=months[at.month - 1], day=at.day)
    return told.replace(" ", UNBROKEN)


def length(time: timedelta) -> str:
    """One unit: `41 d`, `3 h`, `5 min`. At a glance nobody reads a second one."""
    seconds = max(0, round(time.total_seconds()))
    if seconds >= 2 * DAY_S:
        return _("{n} d").format(n=seconds // DAY_S).replace(" ", UNBROKEN)
    if seconds >= HOUR_S:
        return _("{n} h").format(n=seconds // HOUR_S).replace(" ", UNBROKEN)
    if seconds >= MINUTE_S:
        return _("{n} min").format(n=seconds // MINUTE_S).replace(" ", UNBROKEN)
    return _("{n} s").format(n=seconds).replace(" ", UNBROKEN)


def counted_gpus(gpus: float) -> str:
    """`1.5 GPUs`, `1 GPU`."""
    figure = figure_of(gpus)
    return ngettext("{figure} GPU", "{figure} GPUs", 1 if gpus <= 1 else 2).format(figure=figure).replace(" ", UNBROKEN)


def figure_of(amount: float, places: int = 2) -> str:
    """Two places at the most: nobody reads more."""
    return f"{amount:.{places}f}".rstrip("0").rstrip(".") if abs(amount) < 100 else f"{amount:,.0f}"


def column_figure(amount: float, places: int) -> str:
    """For a column: all with as many places, so that they stand under each other."""
    return f"{amount:,.{places}f}"
