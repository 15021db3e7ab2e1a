"""Quotas: what admins said that users and teams may hold, and what they held in the last week. Written first, then counted on."""
import asyncio
from collections.abc import Callable, Iterable, Sequence

from gpufairy.control.clock import Clock
from gpufairy.control.registry import Registry
from gpufairy.control.teams import Teams
from gpufairy.core.errors import BadInput, NoSuchThing
from gpufairy.core.names import nearest
from gpufairy.core.node import Node
from gpufairy.core.quota import Allowances
from gpufairy.core.quota_check import check_alone, check_sound, notes_on
from gpufairy.core.quota_rules import ANY_KIND, EACH_TEAM, EACH_USER, Quota
from gpufairy.core.session import Session
from gpufairy.core.week_use import WEEK, WeekUse
from gpufairy.store.teams import Teams as StoredTeams


class Quotas:
    def __init__(self, store: StoredTeams, registry: Registry, teams: Teams, clock: Clock) -> None:
        self._store, self._registry, self._teams, self._clock = store, registry, teams, clock
        self._quotas: dict[tuple[str, str], Quota] = {}
        self._in_force: tuple[Quota, ...] = ()
        self.week = WeekUse()
        self._one_at_a_time = asyncio.Lock()  # what is checked must still hold when it is written

    async def load(self) -> None:
        await self.read_again()
        self.week = WeekUse()
        for held in await self._store.counted_holds(self._clock() - WEEK):
            self.week.add(held.owner, held.team, held.seat, held.since, held.until)

    async def read_again(self) -> None:
        self._keep({(quota.of, quota.gpu_kind): quota for quota in await self._store.quotas()})

    def all(self) -> tuple[Quota, ...]:
        return self._in_force

    def check(self, session: Session, nodes: Sequence[Node]) -> None:
        """Raises QuotaExceeded for a session, not submitted yet, that no end of another's would let start."""
        check_alone(session, self._in_force, nodes)

    def allowances(self, holding: Iterable[Session], nodes: Sequence[Node]) -> Allowances:
        return Allowances(self._in_force, holding, self.week, self._clock(), nodes)

    def notes(self, quota: Quota) -> list[str]:
        """What of it can never be used up, since a smaller one counts too."""
        of_user = quota.of.startswith("user:") and quota.of != EACH_USER
        return notes_on(quota, self._in_force, self._registry.user(quota.of.removeprefix("user:")).team if of_user else None)

    async def set(self, of: str, gpu_kind: str, changed: Callable[[Quota], Quota], nodes: Sequence[Node]) -> Quota:
        """`changed` makes the new one of the one before, which has no bounds if there was none."""
        async with self._one_at_a_time:
            self._check_named(of)
            kind = known_kind(gpu_kind, nodes)
            quota = changed(self._quotas.get((of, kind), Quota(of, kind)))
            check_sound(quota)
            await self._store.set_quota(quota)
            self._keep({**self._quotas, (of, kind): quota})
            return quota

    async def unset(self, of: str, gpu_kind: str) -> None:
        async with self._one_at_a_time:
            kind = next((known for who, known in self._quotas if who == of and known.lower() == gpu_kind.lower()), None)
            if kind is None:
                there = [who for who, _ in self._quotas]
                more = "" if gpu_kind == ANY_KIND else f" for {gpu_kind[:60]!r}"
                raise NoSuchThing(f"no quota of {of[:60]!r}{more}{nearest(of, there)}", "See `fairy quota list`.")
            await self._store.remove_quota(of, kind)
            self._keep({key: quota for key, quota in self._quotas.items() if key != (of, kind)})

    def _keep(self, quotas: dict[tuple[str, str], Quota]) -> None:
        self._quotas, self._in_force = quotas, tuple(quotas[key] for key in sorted(quotas))

    def _check_named(self, of: str) -> None:
        sort, _, name = of.partition(":")
        if sort not in ("user", "team") or not name:
            raise BadInput(f"of: found {of[:60]!r}", "Write user:NAME or team:NAME; user:* or team:* for each who has none of their own.")
        if of in (EACH_USER, EACH_TEAM):
            return
        if sort == "user":
            self._registry.user(name)
        else:
            self._teams.team(name)


def known_kind(gpu_kind: str, nodes: Sequence[Node]) -> str:
    """As the nodes spell it: a kind, or the first word of several (`A100`)."""
    kinds = {gpu.kind for node in nodes for gpu in node.gpus}
    known = {kind.lower(): kind for name in kinds for kind in (name, name.split("-")[0])}
    if gpu_kind == ANY_KIND:
        return gpu_kind
    if gpu_kind.lower() not in known:
        raise NoSuchThing(f"no GPU here is of kind {gpu_kind[:60]!r}{nearest(gpu_kind, known)}", "See `fairy free` for what there is.")
    return known[gpu_kind.lower()]
