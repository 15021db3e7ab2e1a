"""One pass of a replay: plan(), or the same with less work where what is left out could change nothing of who starts where.

On a server a pass also says why others wait and when they may start; of a replay nobody asks that.
"""
from dataclasses import replace
from datetime import datetime

from gpufairy.core.cluster import Cluster
from gpufairy.core.fit import Refusal
from gpufairy.core.floor import Floor
from gpufairy.core.plan import Pass, Placement, Plan, plan
from gpufairy.core.queue import Queue, ready_at
from gpufairy.core.replay_chances import Chances
from gpufairy.core.replay_rules import Rules
from gpufairy.core.replay_world import World
from gpufairy.core.session import Session
from gpufairy.core.turn import Line

NO_ROOM = (Refusal("all nodes", "no node has room for it now"),)


def planned(world: World, rules: Rules, now: datetime) -> Plan:
    cluster, floor = world.cluster(), world.floor
    if not rules.backfill:
        return plan_without_backfill(cluster, now, floor)
    if rules.quotas or world.somebody_may_have_to_leave():
        return plan(cluster, now, floor)
    only = world.only_one_waiting()
    if only is not None and ready_at(only) <= now:
        return plan_for_one(cluster, only, now, floor)
    return short_plan(cluster, now, floor, world.chances)


def plan_for_one(cluster: Cluster, session: Session, now: datetime, floor: Floor) -> Plan:
    """A line of one: nobody's turn is weighed, and nobody would have to heed what it is promised."""
    work = Pass(cluster, now, floor)
    work.seats_for([session])
    return work.done()


def short_plan(cluster: Cluster, now: datetime, floor: Floor, chances: Chances) -> Plan:
    """As plan(); but who is known to fit nowhere is not tried, and it is over when all who might fit have had their turn."""
    work = Pass(cluster, now, floor)
    line, left = Line(cluster, now, work.refused_for), chances.hopeful()
    for session in line:
        hopeful = chances.are_there_for(session)
        left -= hopeful
        found = work.seats_for([session]) if hopeful else NO_ROOM
        if isinstance(found, list):
            line.placed(session, found[0].charge_parts)
        elif left:
            line.refused(session)
            work.refuse([session], found)
        if not left or len(work.placed) >= cluster.policy.depth:
            break
    return work.done()


def plan_without_backfill(cluster: Cluster, now: datetime, floor: Floor) -> Plan:
    """In turn, each alone, up to the first for whom there is no room. Whom a quota holds back holds up nobody."""
    placed: list[Placement] = []
    line, made = Line(cluster, now), Plan((), {}, (), now)
    for session in line:
        holding = (*cluster.holding, *(replace(one.session, seat=one.seat, placed_at=now, started_at=now) for one in placed))
        made = plan(replace(cluster, holding=holding, waiting={session.owner: Queue([session])}), now, floor)
        if made.placed:
            placed += made.placed
            line.placed(session, made.placed[0].seat.charge_parts)
            continue
        refusals = made.refusals_of(session)
        if not refusals or any(refusal.node for refusal in refusals):
            break
        line.refused(session)
    return replace(made, placed=tuple(placed))
