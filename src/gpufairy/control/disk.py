"""Disk use as the server knows it: what each place held when it was last walked through, and what of it is whose.

Its own folders it walks through itself; of those on other hosts their agents tell.
"""
import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Protocol

from gpufairy.control.clock import Clock
from gpufairy.core.disk import DiskLook, DiskUser, Place, Unmeasured, as_admin, as_owner, disk_user, disk_users
from gpufairy.core.disk_due import OLD_LOOK, WalkPace, is_due, is_full_due
from gpufairy.core.disk_growth import ALL, DaySum, Growth, growth
from gpufairy.core.disk_limit import DiskLimit, OverLimit, limit_of, over_limits
from gpufairy.core.disk_report import DiskTold
from gpufairy.core.errors import Conflict
from gpufairy.core.people import User
from gpufairy.core.quota_rules import Quota
from gpufairy.store.disk import Disk as StoredDisk

GROWTH_DAYS = 10  # as far back as growth is told, and a little more
SETTLING = timedelta(minutes=2)  # after the start: whoever starts a server wants its disks first
ASKED_FOR = timedelta(minutes=10)  # agents are told for so long that somebody wants a walk: each reports every few seconds
NO_PLACES = "no folder of this machine is walked through"


class Walk(Protocol):
    def __call__(self, place: Place, now: datetime, *, full: bool) -> Awaitable[DiskLook | Unmeasured]: ...


SetLimit = Callable[[User, int | None], Awaitable[DiskLimit]]
Here = Callable[[datetime], datetime]  # a time by the clock on the wall


class DiskUse:
    def __init__(self, store: StoredDisk, clock: Clock, users: Callable[[], Sequence[User]], quotas: Callable[[], Sequence[Quota]]) -> None:
        self._store, self._clock, self._users, self._quotas = store, clock, users, quotas
        self.places: tuple[Place, ...] = ()  # of this machine
        self.why_none = NO_PLACES  # where there is no place: in words
        self.pace = WalkPace()
        self.walk: Walk | None = None
        self.set_limit: SetLimit | None = None  # None: homes lie where no limit can be set from here
        self.here: Here = datetime.astimezone
        self.watched: Callable[[], Collection[str]] = frozenset  # hosts whose agents may tell of their disks
        self.wake = asyncio.Event()  # somebody wants it walked through now
        self.limits_changed = asyncio.Event()
        self.walking: Place | None = None
        self.asked_at: datetime | None = None  # last, by an admin
        self._looks: dict[str, DiskLook] = {}
        self._full_at: dict[str, datetime] = {}
        self._unmeasured: dict[str, Unmeasured] = {}
        self._days: dict[str, list[DaySum]] = {}  # by who
        self._limits: dict[str, DiskLimit] = {}
        self._asked = False
        self._began = clock()
        self._version = 0  # of the looks
        self._sums: tuple[object, dict[str, DiskUser]] = (None, {})  # of everybody, and what they were made from

    async def load(self) -> None:
        for look, full_at in await self._store.looks():
            self._looks[look.place.name] = look
            if full_at is not None:
                self._full_at[look.place.name] = full_at
        self._days = by_who(await self._store.days(self._today() - timedelta(days=GROWTH_DAYS)))

    def all_places(self) -> list[Place]:
        """Those of this machine, then those that agents told of."""
        watched = self.watched()
        told = {name: one.place for known in (self._looks, self._unmeasured) for name, one in known.items() if one.place.node in watched}
        return [*self.places, *(told[name] for name in sorted(told))]

    def looks(self) -> list[DiskLook]:
        """Of the places that are walked through now, as the settings and the agents have them."""
        return [look for place in self.all_places() if (look := self._looks.get(place.name)) is not None and look.place == place]

    def unmeasured(self) -> list[Unmeasured]:
        """The last try failed: what is told of the place, if anything, is of before."""
        return [found for place in self.all_places() if (found := self._unmeasured.get(place.name)) is not None]

    def is_old(self, look: DiskLook) -> bool:
        return self._clock() - look.at > OLD_LOOK

    def as_of(self) -> datetime | None:
        """The oldest look that is not too old to speak for the rest; None: nobody has looked."""
        looks = self.looks()
        times = [look.at for look in looks if not self.is_old(look)] or [look.at for look in looks]
        return min(times, default=None)

    def users(self) -> dict[str, DiskUser]:
        """In sums. Kept: it is asked for with every page and every look of the alerts."""
        names, looks = {user.name: user.uid for user in self._users()}, self.looks()
        made_from = names, self._version, [look.place for look in looks]
        if self._sums[0] != made_from:
            self._sums = made_from, disk_users(looks, names)
        return self._sums[1]

    def users_on(self, places: Collection[Place]) -> dict[str, DiskUser]:
        """The same of these places alone."""
        return disk_users([look for look in self.looks() if look.place in places], {user.name: user.uid for user in self._users()})

    def user(self, name: str, places: Collection[Place] | None = None, *, by_admin: bool = False) -> DiskUser | None:
        """With all that is known of theirs; None: nothing. `places`: in these alone."""
        uid = next((user.uid for user in self._users() if user.name == name), 0)
        looks = [look for look in self.looks() if places is None or look.place in places]
        return disk_user(looks, name, uid, as_admin if by_admin else as_owner)

    def growth_of(self, user: DiskUser) -> Growth:
        return self._growth(user.user, dict(user.places))

    def growth_of_place(self, look: DiskLook) -> Growth:
        return self._growth(ALL, {look.place.name: look.bytes})

    def limit(self, user: str) -> DiskLimit:
        """What is set, and whether it holds."""
        wanted = limit_of(user, self._quotas())
        known = self._limits.get(user)
        if known is not None and known.limit_bytes == wanted:
            return known
        return DiskLimit(wanted, False, "" if wanted is None else "it is not set yet, or cannot be here")

    def over_limits(self) -> list[OverLimit]:
        return over_limits(self.users().values(), self.limit) if any(quota.disk_bytes is not None for quota in self._quotas()) else []

    def ask(self) -> None:
        """Somebody wants it walked through now."""
        if not self.places and not self.watched():
            raise Conflict(f"disk use is not known here: {self.why_none}", "Name folders in fairy.toml: [disk] folders.")
        self._asked, self.asked_at = True, self._clock()
        self.wake.set()

    def asked_of_agents(self) -> datetime | None:
        """What is told to each with the answer to its next reports: the same time is the same wish."""
        return self.asked_at if self.asked_at is not None and self._clock() - self.asked_at < ASKED_FOR else None

    async def look(self) -> None:
        """One turn of the loop: every place whose time has come, one after the other."""
        watched = self.watched()
        await self._forget_places(lambda place: place.node not in watched)
        if self.walk is None:
            return
        asked, self._asked = self._asked, False
        settled = self._clock() - self._began >= SETTLING
        for place in self.places if asked or settled else ():
            now, look = self._clock(), self._looks.get(place.name)
            full = look is None or look.place != place or self._is_full_due(place, now)
            if asked or is_due(self._tried_at(place), now, self.pace, full=full):
                await self._walk_through(self.walk, place, now, full=full)

    async def take(self, told: DiskTold) -> None:
        """What an agent found on its host. A look that is older than the one that is known comes too late."""
        await self._forget_places(lambda place: place.node == told.node and place not in told.places)
        if told.failed is not None:
            self._unmeasured[told.failed.place.name] = told.failed
        known = None if told.look is None else self._looks.get(told.look.place.name)
        if told.look is not None and (known is None or known.at < told.look.at or known.at > self._clock()):
            await self._keep(told.look, told.look.at if told.look.full else None)

    async def forget_node(self, node: str) -> None:
        """No more is heard of it: what lies there is not known."""
        await self._forget_places(lambda place: place.node == node)

    async def _forget_places(self, is_over: Callable[[Place], bool]) -> None:
        """Of other hosts alone: what is kept of this machine's own is good again when the settings name it again."""
        for known in (self._unmeasured, self._looks):
            for name in [name for name, one in known.items() if one.place.node and is_over(one.place)]:
                known.pop(name, None)
                self._full_at.pop(name, None)
                if known is self._looks:
                    self._version += 1
                    await self._store.forget(name)

    def _is_full_due(self, place: Place, now: datetime) -> bool:
        last = self._full_at.get(place.name)
        return is_full_due(None if last is None else self.here(last), self.here(now), self.pace.nightly)

    def _tried_at(self, place: Place) -> datetime | None:
        times = [found.at for found in (self._looks.get(place.name), self._unmeasured.get(place.name)) if found is not None]
        return max(times, default=None)

    async def _walk_through(self, walk: Walk, place: Place, now: datetime, *, full: bool) -> None:
        self.walking = place
        try:
            found = await walk(place, now, full=full)
        finally:
            self.walking = None
        if isinstance(found, Unmeasured):
            self._unmeasured[place.name] = found
        else:
            await self._keep(found, now if full else None)

    async def _keep(self, look: DiskLook, full_at: datetime | None) -> None:
        """`full_at=None`: not in full."""
        name = look.place.name
        self._unmeasured.pop(name, None)
        days, full_at = self._day_sums(look), full_at or self._full_at.get(name)
        await self._store.put(look, full_at, days)
        self._looks[name] = look
        self._version += 1
        if full_at is not None:
            self._full_at[name] = full_at
        since, today = self._today() - timedelta(days=GROWTH_DAYS), self._today()
        kept = (one for some in self._days.values() for one in some if one.day >= since and (one.day, one.place) != (today, name))
        self._days = by_who([*kept, *days])

    def _day_sums(self, look: DiskLook) -> list[DaySum]:
        today, place = self._today(), look.place.name
        users = disk_users([look], {user.name: user.uid for user in self._users()})
        theirs = [DaySum(today, place, user.user, user.bytes, user.inodes) for user in users.values()]
        return [DaySum(today, place, ALL, look.bytes, look.inodes), *theirs]

    async def hold_to_limits(self) -> None:
        """A loop of its own: a walk may take hours. Set where they are not as wanted, and then kept by the kernel; what it refused is tried
        again each turn."""
        if self.set_limit is None:
            return
        for user in self._users():
            wanted, known = limit_of(user.name, self._quotas()), self._limits.get(user.name)
            if known is None and wanted is None:
                continue  # nobody ever limited them, as far as this server knows
            if known is None or known.limit_bytes != wanted or (wanted is not None and not known.enforced):
                self._limits[user.name] = await self.set_limit(user, wanted)

    def _growth(self, who: str, now: Mapping[str, int]) -> Growth:
        days = [*self._days.get(ALL, ()), *(() if who == ALL else self._days.get(who, ()))]
        return growth(days, who, now, self._today())

    def _today(self) -> date:
        return self.here(self._clock()).date()


def by_who(days: Iterable[DaySum]) -> dict[str, list[DaySum]]:
    found: dict[str, list[DaySum]] = defaultdict(list)
    for one in days:
        found[one.who].append(one)
    return dict(found)
