"""What is known of how a session uses or used what it holds, for commands that are about something else: asked for, never insisted on."""
from collections.abc import Sequence
from datetime import timedelta

from gpufairy.client import Fairy
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe, time_of
from gpufairy.core.errors import FairyError

SUMMED_FROM = timedelta(minutes=1)  # a job that ran for less has nothing worth a line


def advice_known(fairy: Fairy, session: Record) -> list[Record]:
    """Empty also where the server cannot tell now, or is older than this."""
    if not session.get("started_at"):
        return []
    try:
        return list(fairy.advice(session["id"]).get("items") or [])
    except FairyError:
        return []


def summary_known(fairy: Fairy, session: Record) -> Record | None:
    """Of one that is over."""
    if not session.get("ended_at") or not session.get("started_at"):
        return None
    try:
        found = fairy.session_summary(session["id"]).get("summary")
    except FairyError:
        return None
    return found if isinstance(found, dict) else None


def insight_pairs(summary: Record | None, advice: Sequence[Record]) -> list[tuple[str, str]]:
    """For `fairy show`."""
    told = [("summary", safe(line)) for line in (summary or {}).get("lines") or []]
    return [*told, *(("advice", f"{safe(item.get('sentence'))} {safe(item.get('next'))}") for item in advice)]


def last_words(fairy: Fairy, session: Record) -> list[str]:
    """For the end of `fairy run`."""
    began, ended = time_of(session.get("started_at")), time_of(session.get("ended_at"))
    if began is None or ended is None or ended - began < SUMMED_FROM:
        return []
    return [safe(line) for line in (summary_known(fairy, session) or {}).get("lines") or []]
