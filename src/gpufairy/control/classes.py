"""Classes as the server knows them: which there are, who is in them, and what that means for what a student asks for.

Written first, then counted on; what a roster or a date makes necessary is done by class_watch.py, again and again until it is so.
"""
import asyncio
from collections.abc import Mapping, Sequence

from gpufairy.control.clock import Clock
from gpufairy.core.classes import HAND_IN, ClassState, Member, SchoolClass, Standing
from gpufairy.core.errors import Conflict, EngineRefused, NoSuchThing, NotAllowed
from gpufairy.core.names import nearest
from gpufairy.core.people import User
from gpufairy.engines.class_folders import ClassFolders
from gpufairy.engines.docker_spec import Folder
from gpufairy.store.classes import Classes as StoredClasses
from gpufairy.wire.submit import SubmitBody


class Classes:
    def __init__(self, store: StoredClasses, clock: Clock) -> None:
        self.store, self._clock = store, clock
        self.folders: ClassFolders | None = None  # None: homes and hand-ins are not on this machine's disk
        self.presets: Mapping[str, SubmitBody] = {}
        self.mounts_hand_ins = False  # the engine can put folders into sessions
        self.one_at_a_time = asyncio.Lock()  # of what follows from a class: the loop and whoever just changed it do it together
        self._classes: dict[str, SchoolClass] = {}
        self._members: dict[str, dict[str, Member]] = {}  # by class, then by user

    async def load(self) -> None:
        self._classes = {found.name: found for found in await self.store.all()}
        self._members = {}
        self._remember(await self.store.members())

    def all(self) -> list[SchoolClass]:
        """Those that are not over first, the one that ends next before the others."""
        return sorted(self._classes.values(), key=lambda found: (found.archived_at is not None, found.end, found.name))

    def named(self, name: str) -> SchoolClass:
        if name not in self._classes:
            raise NoSuchThing(f"no class {name[:60]!r}{nearest(name, self._classes)}", "See `fairy class list`.")
        return self._classes[name]

    def is_there(self, name: str) -> bool:
        return name in self._classes

    def members(self, name: str) -> list[Member]:
        return sorted(self._members.get(name, {}).values(), key=lambda member: member.user)

    def member(self, name: str, user: str) -> Member:
        members = self._members.get(name, {})
        if user not in members:
            raise NoSuchThing(f"{user[:60]!r} is not in class {name}{nearest(user, members)}", "See `fairy class show`.")
        return members[user]

    def taking(self, user: str) -> tuple[SchoolClass, Member] | None:
        """The class that a student is in now: the one that is not over."""
        for name, members in self._members.items():
            if user in members and members[user].standing is not Standing.LEFT and self._classes[name].archived_at is None:
                return self._classes[name], members[user]
        return None

    def made_for_classes(self) -> frozenset[str]:
        return frozenset(user for members in self._members.values() for user, member in members.items() if member.made_here)

    def elsewhere(self, name: str) -> dict[str, str]:
        """Who is in another class that is not over."""
        return {
            user: other
            for other, members in self._members.items()
            if other != name and self._classes[other].archived_at is None
            for user, member in members.items()
            if member.standing is not Standing.LEFT
        }

    async def put(self, found: SchoolClass, members: Sequence[Member] = ()) -> None:
        await self.store.put(found, members)
        self._classes[found.name] = found
        self._remember(members)

    async def put_members(self, members: Sequence[Member]) -> None:
        await self.store.put_members(members)
        self._remember(members)

    async def remove(self, name: str) -> None:
        await self.store.remove(name)
        self._classes.pop(name, None)
        self._members.pop(name, None)

    def _remember(self, members: Sequence[Member]) -> None:
        for member in members:
            self._members.setdefault(member.of, {})[member.user] = member

    def check_may_start(self, user: User) -> None:
        """Raises for a student whose class has not begun or is over. Who was a user before the class is not bound by its dates."""
        found = self.taking(user.name)
        if found is None:
            return
        taught, member = found
        if member.reset_at is not None:
            raise Conflict(f"the home of {user.name} is just being set aside for class {taught.name}", "Try again in a moment.")
        state = taught.state(self._clock())
        if member.made_here and state is ClassState.BEFORE:
            found_words = f"class {taught.name} begins {taught.start:%Y-%m-%d %H:%M} UTC; nothing starts before"
            raise NotAllowed(found_words, "Until then you can sign in and add your SSH key.")
        if member.made_here and state is ClassState.CLOSING:
            raise NotAllowed(f"class {taught.name} ended {taught.end:%Y-%m-%d %H:%M} UTC", "Ask your teacher.")

    def filled(self, user: User, body: SubmitBody) -> SubmitBody:
        """What a student left open, as their class has it. A preset that they named themselves counts before the class's."""
        found = self.taking(user.name)
        if found is None or body.preset is not None:
            return body
        return body.filled_from(self._default(found[0]))

    def default_for(self, user: User) -> SubmitBody | None:
        """What is started for a student who comes by SSH and has no session; None: what is for everybody."""
        found = self.taking(user.name)
        return self._default(found[0]) if found is not None and any((found[0].preset, found[0].gpus, found[0].image)) else None

    def _default(self, taught: SchoolClass) -> SubmitBody:
        default = self.presets.get(taught.preset or "", SubmitBody())
        said = {"gpus": taught.gpus, "image": taught.image}
        return default.model_copy(update={name: value for name, value in said.items() if value is not None})

    def mounts(self, user: User, asked: tuple[str, ...], *, root_inside: bool) -> tuple[str, ...]:
        """With the hand-in folder of the class, which every session of a student has. Not as root, who could do harm there."""
        found = self.taking(user.name)
        if found is None or not self.mounts_hand_ins or root_inside:
            return asked
        return tuple(dict.fromkeys([*asked, f"{HAND_IN}/{found[0].name}"]))

    def hand_in(self, owner: str, name: str) -> Folder:
        """What a session of theirs is given of a class: a student their own folder, a teacher all of them to read. Raises EngineRefused."""
        taught, folders = self._classes.get(name), self.folders
        if taught is not None and folders is not None:
            if owner in taught.teachers:
                return Folder(folders.class_folder(name), writable=False)
            member = self._members.get(name, {}).get(owner)
            if member is not None and member.standing is Standing.IN:
                return Folder(folders.hand_in_folder(name, owner), writable=self.takes_hand_ins(taught))
        raise EngineRefused(f"{owner} neither takes nor teaches a class {name[:60]!r}", "Leave that mount out.")

    def takes_hand_ins(self, taught: SchoolClass) -> bool:
        return taught.archived_at is None and not taught.frozen and self._clock() < taught.hand_in_until
