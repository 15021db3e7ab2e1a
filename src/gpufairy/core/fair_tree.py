"""Fair tree: teams against teams, and within a team its users, each by what they have had over their share.

Whoever has no team is a team of one, with a share of their own. Two levels of heaps: a seat given to one of a team moves
all of its members back at once, by one key and not by as many as they are.
"""
import heapq
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from gpufairy.core.cluster import Weights
from gpufairy.core.ledger import TEAM, charged_to
from gpufairy.core.queue import Asked, rank
from gpufairy.core.session import Session


class Place(NamedTuple):
    """An owner's next session, by what decides within their team."""

    order: int  # its rank (queue.py): its priority, the highest first
    standing: float  # of the owner
    number: int
    owner: str
    session: Session
    asked: Asked


class TeamPlace(NamedTuple):
    """A team's next, by what decides between teams."""

    order: int
    standing: float  # of the team
    of_owner: float
    number: int
    team: str


class FairTree:
    """One place for every owner. What is charged changes who is next; standings only grow."""

    def __init__(self, had: Mapping[str, float], weights: Weights) -> None:
        """`had`: of owners and of teams, in GPUs."""
        self._had: dict[str, float] = defaultdict(float, had)
        self._weights = weights
        self._members: dict[str, list[Place]] = {}  # of every team a heap
        self._heap: list[TeamPlace] = []
        self._counts: dict[str, TeamPlace] = {}  # of a team's places in the heap, the one that counts

    def add(self, session: Session, asked: Asked) -> None:
        """The next of its owner, who has no other place now."""
        team = team_of(session)
        place = Place(rank(session), self._standing(session.owner), session.number, session.owner, session, asked)
        heapq.heappush(self._members.setdefault(team, []), place)
        first = self._first_of(team)
        if self._counts.get(team) != first:
            self._push(team, first)

    def pop(self) -> Place | None:
        """Whoever is next; they have no place any more."""
        while self._heap:
            first = heapq.heappop(self._heap)
            if self._counts.get(first.team) != first:
                continue  # somebody of that team has come before it
            now = self._first_of(first.team)
            if now != first:
                self._push(first.team, now)  # the team was charged since
                continue
            place = heapq.heappop(self._members[first.team])
            self._push(first.team, self._first_of(first.team))
            return place
        return None

    def charge(self, session: Session, gpus: float) -> None:
        for name in charged_to(session):
            self._had[name] += gpus

    def _push(self, team: str, first: TeamPlace | None) -> None:
        if first is None:
            self._counts.pop(team, None)
            return
        self._counts[team] = first
        heapq.heappush(self._heap, first)

    def _first_of(self, team: str) -> TeamPlace | None:
        members = self._members.get(team)
        if not members:
            return None
        first = members[0]
        return TeamPlace(first.order, self._standing(team), first.standing, first.number, team)

    def _standing(self, name: str) -> float:
        """Of an owner, or of a team by its name with `team:` before it."""
        had = self._had[name]
        if name.startswith(TEAM):
            return had / self._weights.teams.get(name.removeprefix(TEAM), 1.0)
        return had / self._weights.users.get(name, 1.0)


def team_of(session: Session) -> str:
    """Its team; of who has none, themselves."""
    return session.owner if session.team is None else TEAM + session.team
