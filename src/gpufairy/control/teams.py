"""Teams: who is in which, and what part of the GPUs each is entitled to. Written first, then counted on.

A team is there because an admin made it, or because somebody is in it: then it has a share of 1 until somebody says otherwise.
"""
import asyncio

from gpufairy.control.clock import Clock
from gpufairy.control.registry import Registry
from gpufairy.core.cluster import Weights
from gpufairy.core.errors import Conflict, NoSuchThing
from gpufairy.core.names import label, nearest
from gpufairy.core.people import User
from gpufairy.core.team import Team, checked_share
from gpufairy.store.teams import Teams as StoredTeams


class Teams:
    def __init__(self, store: StoredTeams, registry: Registry, clock: Clock) -> None:
        self._store, self._registry, self._clock = store, registry, clock
        self._teams: dict[str, Team] = {}  # those that were made, or given a share
        self._one_at_a_time = asyncio.Lock()  # what is checked must still hold when it is written

    async def load(self) -> None:
        self._teams = {team.name: team for team in await self._store.teams()}

    def all(self) -> list[Team]:
        there = {user.team for user in self._registry.users() if user.team is not None}
        return [self._teams.get(name, Team(name)) for name in sorted(there | set(self._teams))]

    def team(self, name: str) -> Team:
        known = {team.name: team for team in self.all()}
        if name not in known:
            raise NoSuchThing(f"no team {name[:60]!r}{nearest(name, known)}", "See `fairy team list`.")
        return known[name]

    def members(self, name: str) -> list[User]:
        return [user for user in self._registry.users() if user.team == name]

    def weights(self) -> Weights:
        return Weights({team.name: team.share for team in self._teams.values()}, self._registry.user_shares())

    async def add(self, name: str, share: float) -> Team:
        async with self._one_at_a_time:
            if label(name, "team") in self._teams:
                raise Conflict(f"there is a team {name!r} already", f"Give it another share: fairy team share {name} {share:g}.")
            return await self._put(name, share)

    async def change(self, name: str, share: float) -> Team:
        async with self._one_at_a_time:
            return await self._put(self.team(name).name, share)

    async def _put(self, name: str, share: float) -> Team:
        made_at = self._clock()
        await self._store.put(name, checked_share(share), made_at)
        before = self._teams.get(name)
        self._teams[name] = Team(name, share, made_at if before is None else before.created_at)
        return self._teams[name]

    async def remove(self, name: str) -> None:
        """Its quotas go with it: whoever calls this reads them again."""
        async with self._one_at_a_time:
            team, members = self.team(name), [user.name for user in self.members(name)]
            if members:
                more = f" and {len(members) - 3} more" if len(members) > 3 else ""
                found = f"in team {name} are still {', '.join(members[:3])}{more}"
                raise Conflict(found, f"Take them out first: fairy user team {members[0]} none.")
            await self._store.remove(team.name)
            self._teams.pop(team.name, None)
