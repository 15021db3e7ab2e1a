"""Gallery: which images there are, who may use which, and those that were made here. Kept in memory as the store has it."""
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from gpufairy.control.clock import Clock
from gpufairy.control.registry import Caller
from gpufairy.core.errors import BadInput, Conflict, NeverFits, NoSuchThing, NotAllowed
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
        name = image_name(request.image or self.rules.default)
        self.check_right(caller, name)
        image = await self.shelf.image(name)
        self._check_same(caller, name, image)
        if image is None and not self.rules.pull:
            near = nearest(name, [there.name for there in await self.shelf.images() if not is_ours(there.name)])
            raise NoSuchThing(f"image {name} is not on this machine{near}, and none are fetched here", "See `fairy image list`.")
        if image is not None and request.share.kind is not ShareKind.NONE:
            refusals = [cuda_refusal(image, node.driver_cuda) for node in nodes if node.gpus]
            if refusals and all(refusals):
                raise NeverFits(str(refusals[0]), "Choose an image for an older CUDA, or have the driver renewed. See `fairy image list`.")
        return replace(request, image=name)

    def root_inside(self, session: Session) -> bool:
        return self.shelf is not None and session.request.image is not None and self.rules.root_inside(session.request.image)

    def check_right(self, caller: Caller, name: str) -> None:
        if refusal := self.rules.refusal(name, caller.user, caller.is_admin, self._made.get(name)):
            raise NotAllowed(refusal, "See `fairy image list` for those you may use, or ask an admin.")

    def check_pull(self, caller: Caller, name: str) -> None:
        """Raises why this caller may not have it fetched."""
        self.check_right(caller, name)
        if name in self._made:
            raise Conflict(f"image {name} was made here, and no registry has it", "Use it as it is.")
        if not self.rules.pull and not caller.is_admin:
            raise NotAllowed("images are fetched by admins alone here", "Ask an admin to fetch it.")

    def _check_same(self, caller: Caller, name: str, image: Image | None) -> None:
        """What was made here is used by its own name, and only as it was when somebody decided on it."""
        made = self._made.get(name)
        if made is not None and (image is None or image.id != made.image_id):
            raise Conflict(f"image {name} is no longer the one that {made.owner} made", "Have it made again, or removed by an admin.")
        for other in self._made.values() if image is not None else ():
            refusal = made_refusal(other, caller.user.name, caller.is_admin)
            if image is not None and other.image_id == image.id and refusal is not None:
                raise NotAllowed(refusal, "See `fairy image list` for those you may use, or ask an admin.")

    async def offers(self, caller: Caller) -> list[Offer]:
        images = await self.on_shelf().images()
        offers = [self._offer(caller, image) for image in images if not is_ours(image.name)]
        # What others have made and nobody has let in is not even shown: its name, packages and session are theirs.
        seen = [offer for offer in offers if offer.refusal is None or offer.made is None]
        return sorted(seen, key=lambda offer: offer.image.name)

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
        return image

    async def decide(self, name: str, state: ImageState, admin: str) -> MadeImage:
        return await self.put(replace(self.made(name), state=state, decided_by=admin))

    async def forget_kept(self, wanted: Collection[str]) -> None:
        """What sessions were before a swap, of which none can go back any more."""
        for image in await self.shelf.images() if self.shelf is not None else ():
            if image.name.startswith("gpufairy-kept/") and image.name not in wanted:
                await self.on_shelf().remove(image.name)

    async def remove(self, caller: Caller, name: str) -> None:
        """An image made here, by its maker or an admin; any other by an admin alone."""
        made = self._made.get(name)
        if not caller.is_admin and (made is None or made.owner != caller.user.name):
            raise NotAllowed(f"image {name} was not made by {caller.user.name}", "Ask an admin.")
        await self.on_shelf().remove(name)
        if made is not None:
            await self._store.remove(name)
            del self._made[name]
