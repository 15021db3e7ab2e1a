"""Over its share: told after a few looks, stopped after the grace, and never for what is not known."""
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from gpufairy.core.node import Sharing
from gpufairy.core.node_sample import NodeSample, ProcessReading
from gpufairy.core.over_share import LOOKS, Excess, excesses, judge
from gpufairy.core.owner import KnownBy, Owner, RunningProcess
from gpufairy.core.reading import GpuProcess
from gpufairy.core.session import GpuSeat, Seat
from gpufairy.core.share import PARTS
from gpufairy.core.sharing import MEMORY, SM
from scenes import GIB, a_session

NOW = datetime(2026, 11, 15, 8, 0, tzinfo=UTC)
GRACE = timedelta(seconds=30)


def holder(name, parts=PARTS // 2, **fields):
    part = replace(GpuSeat(0, "GPU-1", parts, 40 * GIB * parts // PARTS, "A100-40GB", sharing=Sharing.MPS), **fields)
    return replace(a_session(name=name), id=name, seat=Seat("gpu01", 1000, GIB, (part,)))


def sample(*processes):
    return NodeSample("gpu01", NOW, 1.0, processes=tuple(processes))


def process(session, memory_gib=None, utilisation=None, pid=1, uuid="GPU-1"):
    memory = None if memory_gib is None else int(memory_gib * GIB)
    owner = Owner("kim", KnownBy.SESSION, session, session)
    return ProcessReading(GpuProcess(pid, uuid, memory, utilisation), RunningProcess(pid, 1, 1000, "python"), owner)


def found(*processes, sessions=None):
    return excesses(sample(*processes), sessions or [holder("a"), holder("b")])


def test_a_session_within_its_share_is_left_alone():
    assert found(process("a", 20), process("b", 3)) == []


def test_all_processes_of_a_session_count_together():
    [excess] = found(process("a", 11, pid=1), process("a", 11, pid=2), process("b", 20, pid=3))
    assert (excess.session_id, excess.what, excess.used, excess.neighbours) == ("a", MEMORY, 22 * GIB, ("b",))
    assert excess.words == "it holds 22 GiB of GPU memory, its share is 20 GiB"


def test_memory_that_is_not_known_counts_against_nobody():
    assert found(process("a", None), process("a", 19, pid=2)) == []


def test_a_whole_gpu_and_a_simulated_one_have_no_share_to_be_over():
    assert found(process("a", 90), sessions=[holder("a", PARTS)]) == []
    assert found(process("a", 90), sessions=[holder("a", simulated=True)]) == []


def test_what_contexts_take_beyond_the_estimate_is_let_pass_for_each_process():
    assert found(*(process("a", 5.4, pid=pid) for pid in range(4))) == []
    assert [one.what for one in found(*(process("a", 5.6, pid=pid) for pid in range(4)))] == [MEMORY]


def test_where_the_share_library_was_found_to_hold_memory_more_is_put_down_to_what_it_cannot_count():
    held = [holder("a", enforced=(MEMORY,))]
    assert found(*(process("a", 5.9, pid=pid) for pid in range(4)), sessions=held) == []
    assert [one.what for one in found(*(process("a", 6.1, pid=pid) for pid in range(4)), sessions=held)] == [MEMORY]


def test_time_is_over_only_where_gpus_are_shared_in_turns_and_it_is_taken_from_somebody():
    in_turns = [holder("a", sharing=Sharing.TIME), holder("b", sharing=Sharing.TIME)]
    assert [one.what for one in found(process("a", 1, 0.9), sessions=in_turns)] == [SM]
    assert found(process("a", 1, 0.9), sessions=in_turns[:1]) == []


def test_by_mps_a_part_of_the_multiprocessors_may_be_busy_all_the_time_tested_or_not():
    assert found(process("a", 1, 1.0), sessions=[holder("a"), holder("b")]) == []


def walk(excess, seconds, grace=GRACE):
    """One look a second; what was said at each."""
    over, said = {}, []
    for second in range(seconds):
        judged = judge([excess] if excess else [], over, NOW + timedelta(seconds=second), grace)
        over = judged.over
        said.append("tell" if judged.told else "stop" if judged.stopped else "")
    return said


TOO_MUCH = Excess("a", "GPU-1", MEMORY, 30 * GIB, 20 * GIB)


def test_it_is_told_once_and_stopped_a_grace_later():
    said = walk(TOO_MUCH, LOOKS + 31)
    assert said.index("tell") == LOOKS - 1
    assert said.count("tell") == 1
    assert said.index("stop") == LOOKS - 1 + 30


def test_without_a_grace_nobody_is_stopped():
    assert "stop" not in walk(TOO_MUCH, 1000, grace=None)


def test_nobody_is_stopped_for_time():
    assert "stop" not in walk(Excess("a", "GPU-1", SM, 0.9, 0.5), 1000)


def test_who_gives_it_back_in_time_begins_anew():
    over = {}
    for second in range(LOOKS + 20):
        over = judge([TOO_MUCH], over, NOW + timedelta(seconds=second), GRACE).over
    over = judge([], over, NOW + timedelta(seconds=LOOKS + 21), GRACE).over
    assert judge([TOO_MUCH], over, NOW + timedelta(seconds=LOOKS + 60), GRACE).stopped == ()


def test_who_is_over_now_and_then_is_not_told_each_time():
    over, told = {}, 0
    for second in range(300):
        judged = judge([TOO_MUCH] if second % 10 < LOOKS else [], over, NOW + timedelta(seconds=second), GRACE)
        over, told = judged.over, told + len(judged.told)
        assert judged.stopped == ()
    assert told == 1


def test_who_is_over_again_an_hour_later_is_told_again():
    over = {}
    for second in range(LOOKS):
        over = judge([TOO_MUCH], over, NOW + timedelta(seconds=second), GRACE).over
    over = judge([], over, NOW + timedelta(hours=1), GRACE).over
    assert over == {}
    assert walk(TOO_MUCH, LOOKS)[-1] == "tell"
