"""The last rung of the ladder: an idle session is kept as an image, where there are any, and told to stop. `fairy resume` undoes it."""
import logging
from collections.abc import Container
from datetime import datetime, timedelta
from functools import partial

from gpufairy.control.commit import check_quota, made
from gpufairy.control.house import House
from gpufairy.core.errors import EngineRefused, EngineSilent, QuotaExceeded
from gpufairy.core.image import own_prefix
from gpufairy.core.lifecycle import Phase
from gpufairy.core.reconcile import Deed
from gpufairy.core.session import Session, Wanted
from gpufairy.core.steps import Change, noted, reclaim
from gpufairy.core.workload import workload_id

log = logging.getLogger("gpufairy.reclaim")

TRY_AGAIN_AFTER = timedelta(hours=1)  # to keep a session as an image: a disk that is full is not emptied in a second


class StopIdle:
    def __init__(self, house: House) -> None:
        self._house = house
        self._failed: dict[str, tuple[datetime, str]] = {}  # by session: when it could not be kept, and why

    def refusal(self, session: Session) -> str:
        """Who cannot be kept is not stopped: nobody's work is lost for being idle."""
        shelf = self._house.gallery.shelf
        if shelf is not None and self._house.gallery.rules.commit == "off":
            return "not stopped: no images are made from sessions here, so it could not be kept"
        if shelf is not None and shelf.no_commits:
            return f"not stopped: what was installed outside of its home would be lost ({shelf.no_commits})"
        at, words = self._failed.get(session.id, (None, ""))
        if at is None or self._house.clock() - at < TRY_AGAIN_AFTER:
            return words
        del self._failed[session.id]
        return ""

    def forget_all_but(self, running: Container[str]) -> None:
        self._failed = {session_id: failed for session_id, failed in self._failed.items() if session_id in running}

    def begin(self, session: Session, why: str) -> None:
        """Beside the loop: an image of many GiB takes minutes. Begun once, however often it is asked for."""
        self._house.deeds.begin(Deed.COMMIT, workload_id(session), partial(self._stop, session, why))

    async def _stop(self, session: Session, why: str) -> None:
        try:
            kept = await self._kept(session)
        except (EngineRefused, EngineSilent, QuotaExceeded) as error:
            log.warning("idle session %s could not be kept as an image, so it runs on: %s", session.id, error)
            self._failed[session.id] = self._house.clock(), f"not stopped: it could not be kept as an image ({error})"
            return
        # Until it is written: an image of many GiB is not made again because somebody was told something meanwhile.
        while (live := self._house.book.get(session.id)) is not None:
            made_now = stop_or_not(live, session, self._house.clock(), f"{why}. {kept}")
            if await self._house.save([made_now]):
                return

    async def _kept(self, session: Session) -> str:
        """In words; empty-handed where there are no images."""
        if self._house.gallery.shelf is None:
            return "Its files are where they were"
        check_quota(self._house, session.owner)
        image = await made(self._house, session, image_of(session, self._house.registry.user(session.owner).uid))
        return f"It is kept as image {image.name}"


def image_of(session: Session, uid: int) -> str:
    """One for each name: the last time counts."""
    return f"{own_prefix(session.owner, uid)}reclaimed:{session.name}"


def stop_or_not(live: Session, before: Session, now: datetime, why: str) -> Change:
    if is_as_idle_as(live, before):
        return reclaim(live, now, why)
    return noted(live, "in_use_again", now, "it was used while it was kept as an image, so it runs on")


def is_as_idle_as(live: Session, before: Session) -> bool:
    same_rung = (live.idle_step, live.idle_since, live.kept_until) == (before.idle_step, before.idle_since, before.kept_until)
    return same_rung and live.phase is Phase.RUNNING and live.wanted is Wanted.RUN and live.attempt == before.attempt
