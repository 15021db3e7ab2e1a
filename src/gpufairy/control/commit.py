"""Commit: a running session becomes an image. What came into it is told, and kept with it."""
from gpufairy.control.house import House
from gpufairy.control.registry import Caller
from gpufairy.core import failpoints
from gpufairy.core.amounts import show_size
from gpufairy.core.errors import BadInput, Conflict, EngineRefused, NotAllowed, QuotaExceeded
from gpufairy.core.image import ImageState, MadeImage, image_name, is_ours, own_prefix, package_difference
from gpufairy.core.lifecycle import Phase
from gpufairy.core.session import Session
from gpufairy.core.workload import workload_id
from gpufairy.engines.contract import ImageShelf

# One line a package. The home is left out of the image, so what lies there is not counted either.
LIST_PACKAGES = """\
export HOME=/nonexistent PYTHONNOUSERSITE=1 PIP_DISABLE_PIP_VERSION_CHECK=1
dpkg-query -W -f 'apt ${Package} ${Version}\\n' 2>/dev/null
apk info -v 2>/dev/null | while read -r line; do echo "apk $line"; done
for python in python3 python; do
  command -v $python >/dev/null 2>&1 || continue
  $python -m pip list --format=freeze 2>/dev/null | while IFS='=' read -r name _ version; do echo "pip $name $version"; done
  break
done
command -v conda >/dev/null 2>&1 && conda list 2>/dev/null | while read -r name version _; do
  case $name in '#'*|'') ;; *) echo "conda $name $version" ;; esac
done
true
"""
LONGEST_LINE = 200


async def commit(house: House, caller: Caller, session: Session, name: str) -> MadeImage:
    gallery, rules = house.gallery, house.gallery.rules
    if why_not := gallery.on_shelf().no_commits:
        raise EngineRefused(f"no image can be made of a session: {why_not}", "Or build one by a Dockerfile, and push it to a registry.")
    name = image_name(name)
    if rules.commit == "off":
        raise NotAllowed("no images are made from sessions here", "Ask an admin.")
    if session.phase is not Phase.RUNNING:
        raise Conflict(f"session {session.name} is {session.state}, and only a running one can become an image", "Start it first.")
    await check_name(house, caller, name)
    check_quota(house, session.owner)
    return await made(house, session, name)


def check_quota(house: House, owner: str) -> None:
    used, most = sum(image.size_bytes for image in house.gallery.made_by(owner)), house.gallery.rules.commit_quota_bytes
    if used >= most:
        raise QuotaExceeded(f"{owner}'s images hold {show_size(used)} of {show_size(most)}", "Remove one: fairy image remove NAME.")


async def made(house: House, session: Session, name: str) -> MadeImage:
    made_from = session.request.image or house.gallery.rules.default
    if house.gallery.made_named(name) is None:
        # Written first: an image that nobody wrote down would be nobody's, for all to use, and its name taken for ever.
        await house.gallery.put(MadeImage(name, "", session.owner, made_from, session.id, session.name, 0, house.clock()))
    try:
        image = await house.gallery.on_shelf().commit(workload_id(session), name)
    except EngineRefused:
        await house.gallery.give_up(name)
        raise
    failpoints.passing("after_image_made_before_noted")
    packages = await package_changes(house.gallery.on_shelf(), made_from, name)
    free = house.gallery.rules.commit == "free"
    state, decided_by = (ImageState.APPROVED, "policy") if free else (ImageState.WAITING, None)
    new = MadeImage(
        name, image.id, session.owner, made_from, session.id, session.name, image.size_bytes, house.clock(), state, packages, decided_by
    )
    return await house.gallery.put(new)


async def check_name(house: House, caller: Caller, name: str) -> None:
    """Never over an image that is somebody else's, or that came from elsewhere."""
    there, own = house.gallery.made_named(name), own_prefix(caller.user.name, caller.user.uid)
    if there is not None and there.owner != caller.user.name and not caller.is_admin:
        raise NotAllowed(f"image {name} was made by {there.owner}", "Choose another name.")
    if is_ours(name) or (not name.startswith(own) and not caller.is_admin):
        raise BadInput(f"image: {name} does not begin with {own}", f"Call it {own}{name.rpartition('/')[2]}.")
    if there is None and await house.gallery.on_shelf().image(name) is not None:
        raise Conflict(f"there is an image {name} already, which was not made here", "Choose another name or tag.")


async def package_changes(shelf: ImageShelf, before: str, after: str) -> tuple[str, ...]:
    """As the images themselves say, not the session, whose owner could make it say anything. Empty where one has no shell to ask."""
    script = ("sh", "-c", LIST_PACKAGES)
    try:
        return package_difference(lines(await shelf.run_once(before, script)), lines(await shelf.run_once(after, script)))
    except EngineRefused:
        return ()


def lines(listing: bytes) -> list[str]:
    told = listing.decode(errors="replace").splitlines()
    return [line[:LONGEST_LINE] for line in told if line.startswith(("apt ", "apk ", "pip ", "conda ")) and line.isprintable()]
