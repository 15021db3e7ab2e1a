"""A forecast in the words of the pages: when, by the reader's clock, and how sure that is."""
from datetime import datetime

from gpufairy.core.explain import Wait
from gpufairy.web.sentences import told
from gpufairy.web.speech import _
from gpufairy.web.times import clock, length


def forecast_words(wait: Wait, now: datetime) -> str:
    """`Starts about 14:20, in 20 min (most likely 14:05 to 14:50)`; where nobody can tell, why not. Without a full stop."""
    start = wait.forecast_start
    if start is None:
        return _("When it starts is {why}").format(why=told(wait.forecast_why)) if wait.forecast_why else ""
    if start <= now:
        return _("Starts any moment")
    said = _("Starts about {clock}, in {time}").format(clock=clock(start, now), time=length(start - now))
    return f"{said} ({ranged})" if (ranged := range_words(wait, now)) else said


def range_words(wait: Wait, now: datetime) -> str:
    if wait.forecast_low is None:
        return ""
    low = clock(max(now, wait.forecast_low), now)
    if wait.forecast_high is None:
        return _("from {low} on").format(low=low)
    high = clock(wait.forecast_high, now)
    return "" if low == high else _("most likely {low} to {high}").format(low=low, high=high)
