"""Traces as people have them: names and units as they are met, and what cannot be used said with its line."""
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufairy.core.errors import BadInput
from gpufairy.core.replay_job import USERS_DRAWN
from gpufairy.core.replay_trace import read_trace
from gpufairy.core.share import NO_GPU, PARTS, ShareKind

OPENB = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"


def read(*lines: str):
    return read_trace(lines, "jobs.csv")


@pytest.mark.parametrize(
    ("columns", "row"),
    [
        ("submit,duration,gpus,user", "60,7200,2,ann"),
        ("submit_time,duration_s,gpus,user", "60,7200,2,ann"),
        ("Submit Time,Duration,GPUs,User", "1970-01-01T00:01:00Z,2h,2,ann"),
        ("submitted_at,run_time,num_gpus,owner", "1970-01-01T01:01:00+01:00,7200.0,2.0,ann"),
        ("arrival_min,duration_hours,gpu_count,user_id", "1,2,2,ann"),
        ("submit_ms,duration_min,share,account", "60000,120,2,ann"),
        ("\ufeffsubmit,duration,gpus,user", "1970-01-01 00:01:00,120m,2,ann"),
    ],
)
def test_columns_and_units_are_known_by_many_names(columns: str, row: str):
    [job] = read(columns, row).jobs
    assert (job.submit, job.duration) == (datetime(1970, 1, 1, 0, 1, tzinfo=UTC), timedelta(hours=2))
    assert (job.request.share.whole_gpus, job.user, job.line) == (2, "ann", 2)


def test_all_that_a_job_may_say_is_read():
    columns = "submit,duration,gpus,user,team,kind,cpus,memory_gib,time_limit_h,preemptible,priority,name,after"
    job = read(columns, "0,60,0.5,ann,nlp,A100,4,16,3,yes,2,train,", "0,1,0,bob,,,,,,,,eval,train").jobs[0]
    request = job.request
    assert (job.team, request.gpu_kind, request.cpus_milli, request.memory_bytes) == ("nlp", "A100", 4000, 16 * 2**30)
    assert (request.time_limit, request.preemptible, job.priority, job.name) == (timedelta(hours=3), True, 2, "train")
    other = read(columns, "0,60,0.5,ann,nlp,A100,4,16,3,yes,2,train,", "0,1,0,bob,,,,,,,,eval,train").jobs[1]
    assert (other.after, other.request.share, other.request.cpus_milli, other.team) == (("train",), NO_GPU, None, None)


def test_times_that_run_back_are_sorted_and_said():
    trace = read("submit,duration,gpus,user", "50,1,1,ann", "10,1,1,bob", "", "30,1,1,eve")
    assert [job.user for job in trace.jobs] == ["bob", "eve", "ann"]
    assert trace.notes == ("1 times of submission run back, first on line 3: sorted",)


def test_openb_is_known_by_its_columns_and_its_users_are_drawn():
    trace = read(
        OPENB, "a,12000,16384,1,1000,,LS,Running,0,100,10", "b,6000,0,1,460,V100M16|V100M32,BE,Running,5,60,20",
        "c,6000,12288,8,1000,,BE,Running,6,60,20", "d,6000,12288,0,0,,BE,Succeeded,7,60,20", "e,1000,1,1,1000,,BE,Pending,7,60,",
    )  # fmt: skip
    a, b, c, d = trace.jobs
    assert (a.duration, a.request.cpus_milli, a.request.memory_bytes) == (timedelta(seconds=90), 12000, 16 * 2**30)
    assert (b.request.share.kind, b.request.share.parts, b.request.gpu_kind) == (ShareKind.FRACTION, 460_000, "V100M16")
    assert (c.request.share.parts, d.request.share) == (8 * PARTS, NO_GPU)
    assert trace.notes[0] == "1 pods that were never started are left out"
    assert f"drawn for it, {USERS_DRAWN}" in trace.notes[1]
    assert [job.user for job in trace.jobs] == [job.user for job in read(OPENB, *(f"x,1,1,1,1000,,,,{t},9,9" for t in range(4))).jobs]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "is empty"),
        (["submit,duration,gpus,user"], "found no jobs"),
        (["submit,gpus"], "line 1: no column for duration, user; found 'submit', 'gpus'"),
        (["submit,duration,gpus,user", "0,-5,1,ann"], "line 2: duration: '-5' is negative"),
        (["submit,duration,gpus,user", "0,5,1,ann", "0,nan,1,ann"], "line 3: duration: 'nan' is no duration"),
        (["submit,duration,gpus,user", "0,5,-1,ann"], "line 2: gpus: '-1' is no GPU share"),
        (["submit,duration,gpus,user", "0,5,1.5,ann"], "line 2: gpus: '1.5' GPUs is neither"),
        (["submit,duration,gpus,user", "soon,5,1,ann"], "line 2: submit: 'soon' is no time"),
        (["submit,duration,gpus,user", "1e300,5,1,ann"], "line 2: submit: '1e300' is no time"),
        (["submit,duration,gpus,user", "0,1e12,1,ann"], "is longer than 3660 days"),
        (["submit,duration,gpus,user", "0,5,1"], "line 2: has no user"),
        (["submit,duration,gpus,user,time_limit", "0,5,1,ann,0"], "line 2: time_limit: 0 is no time to run"),
        (["submit,duration,gpus,user,preemptible", "0,5,1,ann,maybe"], "line 2: preemptible: 'maybe' is neither yes nor no"),
        (["submit,duration,gpus,user,priority", "0,5,1,ann,1.5"], "line 2: priority: '1.5' is no whole number"),
        (["submit,duration,gpus,user,memory", "0,5,1,ann,lots"], "line 2: memory: 'lots' is no size"),
        (["submit,duration,gpus,user", *["0,-1,1,ann"] * 7], "; and 2 more"),
        (["submit,duration,gpus,user,name,after", "0,5,1,ann,a,b", "0,5,1,ann,b,c", "0,5,1,ann,c,a"], "a (line 2) after b (line 3) after c (line 4) after a"),
        (["submit,duration,gpus,user,name,after", "0,5,1,ann,a,a"], "a (line 2) after a"),
        (["submit,duration,gpus,user,name,after", "0,5,1,ann,a,x"], "line 2: comes after 'x', which is no job of the trace"),
        (["submit,duration,gpus,user,name,after", "0,5,1,ann,a,", "0,5,1,ann,a,", "0,5,1,ann,b,a"], "line 2: another job is named 'a' too"),
        ([OPENB, "a,1,1,1,1000,,,,0,,0"], "line 2: has no deletion_time"),
        ([OPENB, "a,1,1,1,2000,,,,0,5,0"], "num_gpu '1' and gpu_milli '2000' are no GPUs"),
        ([OPENB, "a,1,1,1,1000,,,,0,5,9"], "line 2: duration: '-4.0' is negative"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_said_with_its_line(lines: list[str], said: str):
    with pytest.raises(BadInput) as refused:
        read(*lines)
    assert said in str(refused.value)
    assert refused.value.next_step


@given(st.lists(st.text(max_size=80), max_size=8), st.booleans())
def test_whatever_is_in_a_file_is_read_or_refused_in_words(lines: list[str], with_names: bool):
    try:
        read(*(["submit,duration,gpus,user,time_limit,memory,cpus,after,priority"] if with_names else []), *lines)
    except BadInput as error:
        assert error.detail
