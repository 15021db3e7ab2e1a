"""Resume: a session that is over is started again, with the same name and request, from the image that was kept of it if there is one."""
import secrets
from dataclasses import replace

from gpufairy.control.door import check_engine, check_room_in_line
from gpufairy.control.house import House
from gpufairy.control.registry import Caller
from gpufairy.core.admit import check_ever_fits
from gpufairy.core.errors import Conflict, NotAllowed
from gpufairy.core.image import MadeImage, is_ours
from gpufairy.core.lifecycle import Phase
from gpufairy.core.session import Request, Session
from gpufairy.core.steps import event
from gpufairy.devices.mig_tables import mig_tables


async def resume(house: House, caller: Caller, session: Session) -> Session:
    if session.phase is not Phase.ENDED:
        raise Conflict(f"session {session.name} is {session.state}, not over", "There is nothing to resume; see `fairy show`.")
    owner = Caller(house.registry.user(session.owner), caller.scope)
    if owner.user.disabled:
        raise NotAllowed(f"{session.owner} is shut out", "Let them in first: fairy user enable.")
    house.classes.check_may_start(owner.user)
    kept = kept_image(house, session)
    request = again(session.request, kept)
    check_ever_fits(request, house.with_coming, mig_tables())
    request = await house.gallery.chosen(owner, request, house.with_coming)
    check_engine(house, request)
    if house.book.is_taken(session.owner, session.name):
        raise Conflict(f"{session.owner} already has a session {session.name!r}", f"Stop it first: fairy stop {session.name}.")
    now = house.clock()
    new = Session(
        id=secrets.token_hex(10), name=session.name, owner=session.owner, team=owner.user.team, kind=session.kind, request=request,
        submitted_at=now, since=now, priority=session.priority if caller.is_admin else min(0, session.priority),
    )  # fmt: skip
    house.quotas.check(new, house.with_coming)
    check_room_in_line(house, session.owner, 1)
    words = f"resumed from {session.id}" + (f", from image {kept.name}" if kept is not None else "")
    with house.book.reserved(session.owner, [session.name]):
        return (await house.add([new], [event(new, "submitted", now, words, actor=caller.user.name)], None))[0]


def again(request: Request, kept: MadeImage | None) -> Request:
    """What it waited for is over, and who started with it is not asked to again."""
    image = kept.name if kept is not None else request.image
    image = None if image is not None and kept is None and is_ours(image) else image  # of a swap that was undone: it is gone by now
    return replace(request, image=image, after=(), gang=None, gang_size=0)


def kept_image(house: House, session: Session) -> MadeImage | None:
    """The last that was made of this very session."""
    made = [image for image in house.gallery.made_by(session.owner) if image.session_id == session.id]
    return max(made, key=lambda image: image.made_at, default=None)
