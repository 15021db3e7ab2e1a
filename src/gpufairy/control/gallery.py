"""Gallery: which images there are, who may use which, and those that were made here. Kept in memory as the store has it."""
import asyncio
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from gpufairy.control.clock import Clock
from gpufairy.control.registry import Caller
from gpufairy.core.errors import BadInput, Conflict, EngineRefused, NeverFits, NoSuchThing, NotAllowed
from gpufairy.core.image import Image, ImageRules, ImageState, MadeImage, cuda_refusal, image_name, is_ours, made_refusal
from gpufairy.core.names import nearest
from gpufairy.core.node import Node
from gpufairy.core.session import Request, Session
from gpufairy.core.share import ShareKind
from gpufairy.engines.contract import ImageShelf
from gpufairy.store.images import Images

USE_NOTED_EVERY = timedelta(minutes=10)  # the last use of an image need not be known to the second
OPEN_RULES = ImageRules("ubuntu:24.04")


@dataclass(frozen=True, slots=True)
class Offer:
    """An image as one caller may see it."""

    image: Image
    made: MadeImage | None
    used_at: datetime | None
    refusal: str | None  # why they may not use it


class Gallery:
    def __init__(self, store: Images, shelf: ImageShelf | None, clock: Clock, rules: ImageRules = OPEN_RULES) -> None:
        self.shelf, self.rules = shelf, rules
        self._store, self._clock = store, clock
        self._made: dict[str, MadeImage] = {}
        self._used: dict[str, datetime] = {}
        self._removed: set[str] = set()  # names of what was made here, since this server started

    async def load(self) -> None:
        self._made = {image.name: image for image in await self._store.made()}
        self._used = await self._store.uses()

    def on_shelf(self) -> ImageShelf:
        if self.shelf is None:
            raise BadInput("there are no images here: sessions run as processes of the machine", "Start the server with --engine docker.")
        return self.shelf

    async def chosen(self, caller: Caller, request: Request, nodes: tuple[Node, ...]) -> Request:
        """With the image that is meant, checked. Without images here, as it is: the engine says that it does not use them."""
        if self.shelf is None:
            return request
        name = self.known_name(self.shelf, request.image or self.rules.default)
        self.check_right(caller, name)
        made = self._made.get(name)
        image = await self.shelf.image(name) if made is None else await self.shelf.made_here(made)
        self._check_same(caller, name, image)
        if image is None and not self.rules.pull:
            near = nearest(name, [there.name for there in await self.shelf.images() if not is_ours(there.name)])
            if not self.shelf.fetches:
                found = f"image {name} is not on any node, as far as nodes tell{near}, and none are fetched here"
                raise NoSuchThing(found, "See `fairy image list`.")
            raise NoSuchThing(f"image {name} is not on this machine{near}, and none are fetched here", "See `fairy image list`.")
        if image is not None and request.share.kind is not ShareKind.NONE:
            refusals = [cuda_refusal(image, node.driver_cuda) for node in nodes if node.gpus]
            if refusals and all(refusals):
                raise NeverFits(str(refusals[0]), "Choose an image for an older CUDA, or have the driver renewed. See `fairy image list`.")
        return replace(request, image=name)

    def known_name(self, shelf: ImageShelf, text: str) -> str:
        """What was made here has one name, however its registry's own is written: nobody comes past its approval by another."""
        name = image_name(text)
        known = shelf.known_as(name)
        if known != name and known not in self._made:
            raise NoSuchThing(f"no image {known} was made here{nearest(known, self._made)}", "See `fairy image list`.")
        return known

    def as_started(self, session: Session, *, is_admin: bool) -> Session:
        """With the name that the engine has for its image. Raises EngineRefused.

        It may have waited for days: what was made here may be another image since, that nobody has approved, or none, and then its name
        is a stranger's."""
        name = session.request.image
        if self.shelf is None or name is None:
            return session
        made = self._made.get(name)
        if made is not None and (refusal := made_refusal(made, session.owner, is_admin)):
            raise EngineRefused(refusal, "Start it with another image.")
        if made is None and name in self._removed:
            raise EngineRefused(f"image {name}, which was made here, is removed", "Start it with another image.")
        started = self.shelf.started_as(name, made)
        return session if started == name else replace(session, request=replace(session.request, image=started))

    def root_inside(self, session: Session) -> bool:
        return self.shelf is not None and session.request.image is not None and self.rules.root_inside(session.request.image)

    def check_right(self, caller: Caller, name: str) -> None:
        if refusal := self.rules.refusal(name, caller.user, caller.is_admin, self._made.get(name)):
            raise NotAllowed(refusal, "See `fairy image list` for those you may use, or ask an admin.")

    def check_pull(self, caller: Caller, name: str) -> None:
        """Raises why this caller may not have it fetched."""
        self.check_right(caller, name)
        if self.shelf is not None and not self.shelf.fetches:
            return  # who is asked for it says why not
        if name in self._made:
            raise Conflict(f"image {name} was made here, and no registry has it", "Use it as it is.")
        if not self.rules.pull and not caller.is_admin:
            raise NotAllowed("images are fetched by admins alone here", "Ask an admin to fetch it.")

    def _check_same(self, caller: Caller, name: str, image: Image | None) -> None:
        """What was made here is used by its own name, and only as it was when somebody decided on it."""
        made = self._made.get(name)
        if made is not None and (image is None or not made.image_id or image.id != made.image_id):
            raise Conflict(f"image {name} is no longer the one that {made.owner} made", "Have it made again, or removed by an admin.")
        for other in self._made.values() if image is not None else ():
            refusal = made_refusal(other, caller.user.name, caller.is_admin)
            if image is not None and other.image_id == image.id and refusal is not None:
                raise NotAllowed(refusal, "See `fairy image list` for those you may use, or ask an admin.")

    async def offers(self, caller: Caller) -> list[Offer]:
        images = await self._images(self.on_shelf())
        offers = [self._offer(caller, image) for image in images if not is_ours(image.name)]
        # What others have made and nobody has let in is not even shown: its name, packages and session are theirs.
        seen = [offer for offer in offers if offer.refusal is None or offer.made is None]
        return sorted(seen, key=lambda offer: offer.image.name)

    async def _images(self, shelf: ImageShelf) -> list[Image]:
        """What lies there, and what was made here and lies elsewhere: in a registry, until a node fetches it."""
        listed = await shelf.images()
        names = {image.name for image in listed}
        made = await asyncio.gather(*(shelf.made_here(one) for one in self._made.values() if one.image_id and one.name not in names))
        return [*listed, *(image for image in made if image is not None)]

    def _offer(self, caller: Caller, image: Image) -> Offer:
        made = self._made.get(image.name)
        refusal = self.rules.refusal(image.name, caller.user, caller.is_admin, made)
        return Offer(image, made, self._used.get(image.name), refusal)

    async def note_use(self, request: Request, owner: str) -> None:
        name, now = request.image, self._clock()
        if name is None or is_ours(name) or (name in self._used and now - self._used[name] < USE_NOTED_EVERY):
            return
        self._used[name] = now
        await self._store.used(name, now, owner)

    def made(self, name: str) -> MadeImage:
        if name not in self._made:
            raise NoSuchThing(f"no image {name!r} was made here{nearest(name, self._made)}", "See `fairy image list`.")
        return self._made[name]

    def made_named(self, name: str) -> MadeImage | None:
        return self._made.get(name)

    def made_by(self, owner: str) -> list[MadeImage]:
        return [image for image in self._made.values() if image.owner == owner]

    async def put(self, image: MadeImage) -> MadeImage:
        await self._store.put(image)
        self._made[image.name] = image
        self._removed.discard(image.name)
        return image

    async def give_up(self, name: str) -> None:
        """One that could not be made."""
        if name in self._made and not self._made[name].image_id:
            await self._store.remove(name)
            del self._made[name]

    async def decide(self, name: str, state: ImageState, admin: str) -> MadeImage:
        return await self.put(replace(self.made(name), state=state, decided_by=admin))

    async def forget_kept(self, wanted: Collection[str]) -> None:
        """What sessions were before a swap, of which none can go back any more."""
        for name in await self.shelf.kept() if self.shelf is not None else ():
            if name not in wanted:
                await self.on_shelf().remove(name)

    async def remove(self, caller: Caller, name: str) -> None:
        """An image made here, by its maker or an admin; any other by an admin alone."""
        made = self._made.get(name)
        if not caller.is_admin and (made is None or made.owner != caller.user.name):
            raise NotAllowed(f"image {name} was not made by {caller.user.name}", "Ask an admin.")
        await self.on_shelf().remove(name)
        if made is not None:
            await self._store.remove(name)
            del self._made[name]
            self._removed.add(name)
