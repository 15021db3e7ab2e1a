"""Sign-in links of classes: printed on a sheet, good once and until the class is over. Kept by their hashes, so a restart forgets none."""
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from gpufairy.control.audit import note
from gpufairy.control.house import House
from gpufairy.control.registry import hashed
from gpufairy.core.classes import Member, SchoolClass, Standing
from gpufairy.core.errors import Conflict, NotSignedIn
from gpufairy.store.classes import ClassLink

PREFIX = "class_"  # so that a code is known for what it is


@dataclass(frozen=True, slots=True)
class MadeLink:
    member: Member
    code: str


async def make_links(house: House, actor: str, taught: SchoolClass, users: Sequence[str] | None, *, all_of_them: bool) -> list[MadeLink]:
    """For these; else for whoever has never come in; else for all. A link made anew takes the place of the one before."""
    classes, now = house.classes, house.clock()
    if taught.archived_at is not None or now >= taught.end:
        raise Conflict(f"class {taught.name} is over", "Links let nobody in any more.")
    members = [member for member in classes.members(taught.name) if member.standing is Standing.IN]
    if users is not None:
        members = [classes.member(taught.name, user) for user in users]
    elif not all_of_them:
        members = [member for member in members if not has_come(house, member.user)]
    made = [MadeLink(member, PREFIX + secrets.token_urlsafe(24)) for member in members]
    await classes.store.put_links([ClassLink(hashed(one.code), taught.name, one.member.user, now, taught.end) for one in made])
    if made:
        await note(house, actor, f"class:{taught.name}", "class_links_made", f"sign-in links for {len(made)} of its students")
    return made


def has_come(house: House, user: str) -> bool:
    """They have a browser, a token or a key."""
    return bool(house.registry.tokens(user) or house.keyring.of(user))


async def link_of(house: House, code: str) -> ClassLink:
    """Whose it is; it stays good. Raises NotSignedIn, in the same words whatever is wrong with it."""
    link = await house.classes.store.link(hashed(code)) if code.startswith(PREFIX) else None
    known = {user.name: user for user in house.registry.users()}
    if link is None or link.until <= house.clock() or link.user not in known or known[link.user].disabled:
        raise NotSignedIn("this sign-in link was used before, is too old, or was made anew", "Ask your teacher for a new one.")
    return link


async def use_link(house: House, code: str) -> str:
    """The student whom it lets in. It is used up."""
    link = await link_of(house, code)
    if not await house.classes.store.use_link(link.hash):
        raise NotSignedIn("this sign-in link was used a moment ago", "Ask your teacher for a new one.")
    return link.user
