"""Cutter: cuts the GPUs of this server by MIG, when an admin says so or, in automatic mode, for those who wait.

Written first, done second: an order is in the journal and what it takes away is set aside before anything is touched. After a crash
the order is given again, and so is finished or undone.
"""
import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from gpufairy.control.house import House
from gpufairy.control.mig_follow import Follower, cut_like
from gpufairy.control.mig_looks import CutView, Looks
from gpufairy.core import failpoints
from gpufairy.core.errors import Conflict, EngineRefused, EngineSilent, FairyError, NoSuchThing
from gpufairy.core.holders import holders_by_gpu
from gpufairy.core.mig import MigInstance
from gpufairy.core.mig_cut import Cut
from gpufairy.core.mig_demand import cut_for_waiting
from gpufairy.core.mig_plan import CutPlan, cut_words, plan_cut
from gpufairy.core.node import Gpu
from gpufairy.core.share import ShareKind
from gpufairy.core.steps import gpu_event
from gpufairy.core.turn import in_order
from gpufairy.devices.mig_journal import CutJournal
from gpufairy.devices.mig_order import CutDone, CutOrder, CutSeen, Outcome
from gpufairy.devices.mig_scissors import Scissors

log = logging.getLogger("gpufairy.mig")

WHOLE = "whole"  # in place of profiles: out of MIG mode
MOST_WAITING = 200  # of those who wait, as many are looked at for one cut
TRY_AGAIN = timedelta(minutes=1)  # after a cut that failed: what was in its way takes a while to go
EVENTS = {Outcome.DONE: "mig_cut", Outcome.UNDONE: "mig_undone", Outcome.HALF: "mig_half_cut", Outcome.RESET: "mig_reset_needed"}


@dataclass(frozen=True, slots=True)
class Applied:
    plan: CutPlan
    before: tuple[MigInstance, ...]
    after: tuple[MigInstance, ...]
    changed: bool
    simulated: bool
    note: str = ""  # what is left for a person to do


async def no_note() -> str:
    return ""


async def nothing_to_release(gpu: str) -> None:
    return None


class Cutter:
    def __init__(
        self, house: House, scissors: Callable[[Gpu], Scissors], journal: CutJournal, *,
        after_cut: Callable[[], Awaitable[str]] = no_note, quiet: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
        release: Callable[[str], Awaitable[None]] = nothing_to_release,
    ) -> None:  # fmt: skip
        """`after_cut`: of real GPUs, what else must know of the new instances; it says what it could not do.
        `quiet`: while it lasts nobody of ours reads the GPUs. MIG mode changes only then.
        `release`: makes MPS, which outlives the last share of a GPU, leave it, or raises EngineRefused."""
        self._house, self._scissors, self._journal, self._after_cut, self._quiet = house, scissors, journal, after_cut, quiet
        self._release = release
        self._looks, self._follower = Looks(house, scissors), Follower(house)
        self._one_at_a_time = asyncio.Lock()
        self._tried: dict[str, datetime] = {}  # by GPU: when a cut of it failed

    async def move_in(self) -> None:
        """Before anything is placed: what an order in the journal takes away is nobody's, and simulated GPUs are as they were cut."""
        for gpu in [gpu for node in self._house.nodes for gpu in node.gpus]:
            if (kept := self._scissors(gpu).kept(gpu)) is not None:
                self._house.cuts.put(gpu.uuid, cut_of(kept))
        await self._house.look_at_nodes()
        for order in await asyncio.to_thread(self._journal.orders):
            if self._house.found_gpu(order.gpu) is not None:
                self._set_aside_again(order)
        await self._house.look_at_nodes()

    def views(self) -> list[CutView]:
        return self._looks.views()

    async def plan(self, uuid: str, wanted: Sequence[str]) -> CutPlan:
        """What `apply` would do now."""
        plan, _ = ordered(await self._looks.fresh_table(uuid), tuple(wanted), "", "")
        return plan

    async def apply(self, uuid: str, wanted: Sequence[str], actor: str, why: str = "") -> Applied:
        """Asked twice for the same it is done once. Raises Conflict where it does not fit or somebody is in the way."""
        self._looks.check_known(uuid)  # it becomes the name of a file in the journal
        async with self._one_at_a_time:
            await self._finish(uuid)
            seen = await self._looks.driver(uuid)
            async with self._house.placing:
                view = self._looks.view(uuid, seen)
                plan, order = ordered(view, tuple(wanted), actor, why)
                if not plan.fits:
                    raise Conflict(f"{view.name}: {plan.why}", "See `fairy mig show` for what is in use and what fits.")
                if order is None:
                    return Applied(plan, view.now.instances, view.now.instances, changed=False, simulated=view.gpu.simulated)
                await asyncio.to_thread(self._journal.write, order)
                self._set_aside(view, order)
                await self._house.look_at_nodes()
            failpoints.passing("after_cut_ordered_before_cut")
            done, note = await self._carry_out(view, order)
            if done.outcome is not Outcome.DONE:
                raise Conflict(f"{view.name} was not cut: {done.why}", "All is as it was." if done.outcome is Outcome.UNDONE else "")
            return Applied(plan, view.now.instances, done.seen.instances, changed=True, simulated=view.gpu.simulated, note=note)

    async def set_auto(self, uuids: Sequence[str], on: bool) -> None:
        for uuid in uuids:
            self._looks.view(uuid)
        await self._house.cuts.set_auto(dict.fromkeys(uuids, on))
        await self._house.look_at_nodes()
        self._house.bells.place.set()

    async def follow_queue(self) -> None:
        """A loop's turn: what was left in the middle is finished; then idle GPUs whose cut may follow the queue are cut for it."""
        for order in await asyncio.to_thread(self._journal.orders):
            if self._may_try(order.gpu) and self._house.found_gpu(order.gpu) is not None and not self._one_at_a_time.locked():
                async with self._one_at_a_time:
                    await self._tried_once(order.gpu, self._finish(order.gpu))
        await self._follow_strangers()
        cluster, now = self._house.cluster(), self._house.clock()
        if not any(gpu.mig_auto for node in cluster.nodes for gpu in node.gpus):
            return
        waiting = [one for one in in_order(cluster, now, MOST_WAITING) if one.request.share.kind is ShareKind.MIG]
        rooms = cluster.rooms()
        for gpu in [gpu for room in rooms.values() for gpu in room.gpus if not self._may_follow(gpu.gpu.uuid)]:
            gpu.gpu = replace(gpu.gpu, mig_auto=False)
        wish = cut_for_waiting(rooms, waiting, holders_by_gpu(cluster.holding), self._looks.busy()) if waiting else None
        if wish is not None:
            why = f"for {len(wish.serves)} that {'waits' if len(wish.serves) == 1 else 'wait'} in the queue"
            await self._tried_once(wish.gpu, self.apply(wish.gpu, wish.wanted, "", why))

    async def _follow_strangers(self) -> None:
        for known, told in self._follower.strangers_cuts():
            view = self._looks.view(known.uuid)
            self._house.cuts.put(told.uuid, cut_like(told))
            await self._house.look_at_nodes()
            cut = " → ".join(mode_words(state_of(CutSeen(view.table, gpu.instances or (), gpu.mig is not None))) for gpu in (known, told))
            await self._note(view, CutOrder(told.uuid), "mig_changed", f"{cut}; not by this server")
            self._house.bells.place.set()

    def _may_follow(self, uuid: str) -> bool:
        cuts = self._house.cuts
        return cuts.is_auto(uuid) and uuid not in cuts.in_hand and self._may_try(uuid)

    def _may_try(self, uuid: str) -> bool:
        tried = self._tried.get(uuid)
        return tried is None or self._house.clock() - tried >= TRY_AGAIN

    async def _tried_once(self, uuid: str, work: Awaitable[object]) -> None:
        try:
            await work
        except (Conflict, EngineRefused, EngineSilent, NoSuchThing) as error:  # the last: it was pulled meanwhile
            self._tried[uuid] = self._house.clock()
            log.warning("GPU %s: %s; again in %s", uuid, error, TRY_AGAIN)

    async def _finish(self, uuid: str) -> None:
        """An order that was left in the middle. What came of it is an event; whoever asked then is no longer there to be told."""
        if (order := await asyncio.to_thread(self._journal.order, uuid)) is not None:
            why = "; ".join(part for part in (order.why, "taken up again after a break") if part)
            await self._carry_out(self._looks.view(uuid), replace(order, why=why))

    def _set_aside_again(self, order: CutOrder) -> None:
        """One that does not answer, or can no longer be cut, keeps nobody from starting: nothing is placed there, and it is tried again."""
        try:
            self._set_aside(self._looks.view(order.gpu), order)
        except (EngineRefused, NoSuchThing) as error:
            log.warning("a cut that was left in the middle waits: %s", error)

    def _set_aside(self, view: CutView, order: CutOrder) -> None:
        """What is to go, and what is not there yet, is nobody's; with a change of mode nothing of the GPU is."""
        stays = tuple(one for one in view.now.instances if one.start not in {gone.start for gone in order.destroy})
        self._house.cuts.put(view.gpu.uuid, Cut(view.table, stays), in_hand=True)

    async def _carry_out(self, view: CutView, order: CutOrder) -> tuple[CutDone, str]:
        """EngineSilent: nobody knows how far it came. The order stays in the journal, and what it takes away stays set aside."""
        gpu = self._house.found_gpu(view.gpu.uuid) or view.gpu
        held_by = partial(self._looks.held_by, gpu.uuid)
        changes_mode = order.mode is not None and not gpu.simulated
        try:
            if changes_mode:
                await self._release(gpu.uuid)
            async with self._quiet() if changes_mode else nullcontext():
                done = await self._scissors(gpu).cut(gpu, order, held_by)
        except EngineRefused as error:  # before it was begun, or the GPU was lost on the way: the driver says how it is cut
            seen = await self._scissors(gpu).look(gpu)
            done = CutDone(Outcome.UNDONE if state_of(seen) == order.before else Outcome.HALF, seen, error.detail)
        except FairyError as error:
            await self._note(view, order, "mig_unfinished", error.detail)
            raise
        failpoints.passing("after_cut_before_noted")
        await self._settle(view, order, done)
        return done, "" if gpu.simulated else await self._after_cut()

    async def _settle(self, view: CutView, order: CutOrder, done: CutDone) -> None:
        self._house.cuts.put(order.gpu, cut_of(done.seen))
        self._looks.settled(order.gpu, done.seen)
        self._follower.settled(order.gpu)
        await self._house.look_at_nodes()
        cut = f"{mode_words(order.before)} → {mode_words(state_of(done.seen))}"
        await self._note(view, order, EVENTS[done.outcome], "; ".join(part for part in (cut, order.why, done.why) if part))
        failpoints.passing("after_cut_noted_before_closed")
        await asyncio.to_thread(self._journal.remove, order.gpu)  # last: without its event nothing is finished
        self._house.bells.place.set()

    async def _note(self, view: CutView, order: CutOrder, what: str, why: str) -> None:
        name = f"{view.name} (simulated)" if view.gpu.simulated else view.name
        await self._house.store.events.add(gpu_event(order.gpu, name, what, self._house.clock(), why, actor=order.actor))
        self._house.bells.sessions_changed([])


def ordered(view: CutView, wanted: tuple[str, ...], actor: str, why: str) -> tuple[CutPlan, CutOrder | None]:
    """The plan, and the order if anything is to be done."""
    before = state_of(CutSeen(view.table, view.now.instances, view.mode))
    if wanted == (WHOLE,):
        if view.now.used:
            return CutPlan(False, kept=view.now.instances, why=f"{cut_words([one.profile for one in view.now.used])} in use"), None
        plan = CutPlan(True, touched=view.now.instances)
        return plan, CutOrder(view.gpu.uuid, view.now.instances, (), False, actor, why, before) if view.mode else None
    plan = plan_cut(view.now, wanted)
    if not view.mode and view.held:
        return CutPlan(False, why=f"it is not in MIG mode, and {', '.join(view.held)} cannot be touched"), None
    # One that is cut on demand is cut for good from now on: what is held of it becomes an instance like the others.
    unnamed = tuple(one for one in plan.kept if not one.uuid)
    if not plan.fits or (view.mode and not plan.changes and not (unnamed or view.gpu.instances is None)):
        return plan, None
    return plan, CutOrder(view.gpu.uuid, plan.touched, (*unnamed, *plan.made), None if view.mode else True, actor, why, before)


def cut_of(seen: CutSeen) -> Cut:
    return Cut(seen.table, seen.instances) if seen.mode else Cut(None, None)


def state_of(seen: CutSeen) -> tuple[str, ...]:
    return tuple(one.profile for one in seen.instances) if seen.mode else (WHOLE,)


def mode_words(profiles: Sequence[str]) -> str:
    return "whole (MIG mode off)" if tuple(profiles) == (WHOLE,) else cut_words(list(profiles))
