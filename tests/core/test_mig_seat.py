"""Which GPU a MIG instance comes from, and where on it: fixed ones first, else the cut that suits what is asked for lately."""
from dataclasses import replace

from gpufairy.core.fit import Preference, Refusal, fit
from gpufairy.core.floor import Floor
from gpufairy.core.mig import MigInstance
from gpufairy.core.mig_recent import FIRST_LEARNT, SETTLED, RecentProfiles
from gpufairy.core.plan import plan
from gpufairy.core.room import Room
from gpufairy.core.session import GpuSeat, Seat
from scenes import A100_CUTS, NOW, a_cluster, a_gpu, a_node, a_session

LARGE = Preference(profiles={"3g.20gb": 1.0})


def a_room(*gpus, cuts=()) -> Room:
    """`cuts`: (index, profile, start, size) of what is held."""
    room = Room.empty(replace(a_node(), gpus=gpus))
    for index, profile, start, size in cuts:
        room.gpus[index].take(GpuSeat(index, f"GPU-gpu01-{index}", 1, 1, profile=profile, start=start, size=size))
    return room


def cut(room: Room, profile: str, prefer: Preference) -> tuple[int, int]:
    found = fit(a_session(gpus=f"mig:{profile}").request, room, prefer=prefer)
    assert isinstance(found, Seat)
    return found.gpus[0].index, found.gpus[0].start


def test_a_small_one_goes_into_the_half_that_is_broken_already():
    room = a_room(a_gpu(0, mig=A100_CUTS), a_gpu(1, mig=A100_CUTS), cuts=[(1, "1g.5gb", 6, 1)])
    gpu, start = cut(room, "1g.5gb", LARGE)
    assert gpu == 1
    assert start in (4, 5)


def test_one_that_is_cut_already_goes_first():
    fixed = (MigInstance("1g.5gb", 0, 1, "MIG-1"), MigInstance("3g.20gb", 4, 4, "MIG-2"))
    room = a_room(a_gpu(0, mig=A100_CUTS), a_gpu(1, mig=A100_CUTS, instances=fixed))
    assert cut(room, "1g.5gb", LARGE) == (1, 0)
    room.gpus[1].take(GpuSeat(1, "GPU-gpu01-1", 1, 1, profile="1g.5gb", start=0, size=1))
    assert cut(room, "1g.5gb", LARGE)[0] == 0


def test_one_set_of_media_engines_is_held_once():
    room = a_room(a_gpu(0, mig=A100_CUTS), cuts=[(0, "1g.5gb+me", 6, 1)])
    assert isinstance(fit(a_session(gpus="mig:1g.5gb+me").request, room), Refusal)
    assert cut(room, "1g.5gb", LARGE)[0] == 0


def test_the_floor_cuts_by_what_was_asked_for_lately():
    asked = [a_session(gpus="mig:3g.20gb").request] * FIRST_LEARNT
    nodes = (a_node("a", mig=True), a_node("b", mig=True))
    floor = Floor(asked)
    waiting = [a_session(gpus="mig:1g.5gb") for _ in range(3)]
    made = plan(a_cluster(nodes, waiting), NOW, floor)
    assert len({placed.seat.gpus[0].uuid for placed in made.placed}) == 1
    assert len({placed.seat.gpus[0].start // 4 for placed in made.placed}) == 1  # all in one half


def test_few_requests_teach_nothing_and_many_seldom():
    recent, learnt = RecentProfiles(), []
    for place in range(1, 1001):
        if recent.note("1g.5gb" if place % 2 else "3g.20gb"):
            learnt.append(place)
    assert learnt[0] == FIRST_LEARNT
    assert recent.mix == {"1g.5gb": 0.5, "3g.20gb": 0.5}
    for _ in range(2 * SETTLED):
        recent.note("7g.40gb")
    assert recent.mix["7g.40gb"] > 0.2


def test_a_mix_that_stays_the_same_is_no_news():
    recent = RecentProfiles()
    assert [recent.note("1g.5gb") for _ in range(500)].count(True) == 1
