"""The expire loop: ends sessions whose time is up, and forgets what nobody can ask for any more."""
import logging
from datetime import datetime, timedelta

from gpufairy.control.house import House
from gpufairy.core.amounts import show_duration
from gpufairy.core.errors import EngineRefused, EngineSilent
from gpufairy.core.lifecycle import Phase
from gpufairy.core.session import Outcome, Session, Wanted
from gpufairy.core.steps import want_stopped

log = logging.getLogger("gpufairy.expire")

KEYS_KEPT = timedelta(hours=24)  # how long a repeated submit is recognised


async def expire(house: House) -> None:
    now = house.clock()
    over = [session for session in house.book.active.values() if time_is_up(session, now)]
    await house.save([want_stopped(session, now, outcome=Outcome.EXPIRED, why=why_expired(session)) for session in over])


async def forget(house: House) -> None:
    """What nobody can ask for any more: old logs and results, and keys of submits that nobody will repeat."""
    now = house.clock()
    await house.store.sessions.forget_old_keys(now - KEYS_KEPT)
    house.registry.forget_expired()
    await forget_kept_images(house)
    gone = await house.engine.forget_older_than(house.policy.keep_ended, now)
    if gone:
        log.info("logs and results of %d sessions that ended over %s ago were deleted", gone, show_duration(house.policy.keep_ended))


async def forget_kept_images(house: House) -> None:
    live = list(house.book.active.values())
    wanted = {name for session in live for name in (session.swapped_from, session.request.image) if name is not None}
    try:
        await house.gallery.forget_kept(wanted)
    except (EngineRefused, EngineSilent) as error:
        log.warning("images kept from swaps could not be removed: %s", error)


def time_is_up(session: Session, now: datetime) -> bool:
    end = session.expected_end
    return session.phase is Phase.RUNNING and session.wanted is Wanted.RUN and end is not None and end <= now


def why_expired(session: Session) -> str:
    return f"its time of {show_duration(session.request.time_limit or timedelta(0))} is up"
