"""Rules of insight, one by one: what is said, with which figures; and when nothing is."""
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from gpufairy.core.insight import Code, GpuLook, Pace, SessionLook
from gpufairy.core.insight_rules import advice, advice_of_all

PACE = Pace()
BACK = PACE.back
GIB = 2**30
QUIET = ("read_bytes_per_s", "written_bytes_per_s", "received_bytes_per_s", "sent_bytes_per_s", "io_waited")


def columns(gpu: float = 0.9, cpus: float = 2.0, **changed: float) -> dict[str, np.ndarray]:
    told = {"gpus_held": 1.0, "gpus_unknown": 0.0, "gpus_used": gpu, "cpus": cpus, "memory_bytes": 4.0 * GIB, "gpu_memory_bytes": 30.0 * GIB}
    return {name: np.full(BACK, float(value)) for name, value in {**told, **dict.fromkeys(QUIET, 0.0), **changed}.items()}


def a_look(own: dict[str, np.ndarray] | None = None, gpus: tuple[dict[str, float], ...] = ({},), **fields) -> SessionLook:
    own = columns() if own is None else own
    use = own.get("gpus_used", np.full(BACK, np.nan))[-1]
    read = [{name: np.full(BACK, value) for name, value in {"utilisation": use, **one}.items()} for one in gpus]
    on_gpus = tuple(GpuLook(index, one, power_limit_w=700.0) for index, one in enumerate(read))
    made = SessionLook("brave-otter", True, float(len(gpus)), 40 * GIB, 4.0, 64 * GIB, 200, own, {}, on_gpus, node_cpus=64)
    return replace(made, **fields)


def codes(look: SessionLook, pace: Pace = PACE) -> list[Code]:
    return [one.code for one in advice(look, pace)]


def test_a_loader_that_starves_the_gpu_is_named_with_its_figures_and_what_to_ask_for():
    (said,) = advice(a_look(columns(gpu=0.23, cpus=3.92)))
    assert said.sentence == "The data loader starves the GPU: GPU 23 % while its 4 CPUs are at 98 %."
    assert said.next_step == "Ask for 8 CPUs, raise num_workers, or let the GPU prepare the data (DALI)."
    assert {(one.what, one.value, one.of) for one in said.evidence} == {("gpu", 0.23, None), ("cpus", 3.92, 4.0)}
    assert said.window == timedelta(minutes=30)
    assert said.confidence > 0.9
    assert said.saves_gpus == pytest.approx(0.77)


def test_no_more_cpus_are_proposed_than_the_machine_has():
    (said,) = advice(a_look(columns(gpu=0.23, cpus=3.92), node_cpus=4))
    assert "Ask for" not in said.next_step


def test_a_good_training_is_left_alone():
    assert codes(a_look(columns(gpu=0.92, cpus=3.9))) == []


@pytest.mark.parametrize("name", ["gpus_used", "cpus", "gpus_held"])
def test_what_is_not_known_is_not_spoken_of(name):
    own = columns(gpu=0.23, cpus=3.92)
    own[name][:] = np.nan
    assert codes(a_look(own)) == []
    del own[name]
    assert codes(a_look(own)) == []


def test_a_use_of_which_a_part_is_unknown_is_unknown():
    assert codes(a_look(columns(gpu=0.23, cpus=3.92, gpus_unknown=0.5))) == []


@pytest.mark.parametrize("minutes", [1, 5, 12])
def test_nothing_is_said_in_the_first_minutes(minutes):
    assert codes(a_look(columns(gpu=0.23, cpus=3.92), age_steps=minutes)) == []


def test_what_was_mended_is_not_said_any_more():
    own = columns(gpu=0.23, cpus=3.92)
    own["gpus_used"][-5:] = 0.9
    assert codes(a_look(own)) == []


def test_an_evaluation_on_the_cpus_is_no_starving():
    own = columns(gpu=0.95, cpus=1.0)
    own["gpus_used"][-8:], own["cpus"][-8:] = 0.1, 4.0
    assert codes(a_look(own)) == []


def test_storage_is_told_from_the_time_its_programs_waited():
    (said,) = advice(a_look(columns(gpu=0.15, cpus=0.5, io_waited=0.63, read_bytes_per_s=180 * 2**20)))
    assert said.code is Code.STORAGE
    assert said.sentence == "Storage holds it up: it waits for a disk 63 % of the time at 180 MiB/s, and the GPU does 15 %."


def test_a_disk_that_another_fills_is_not_held_against_a_session():
    own = columns(gpu=0.15, cpus=0.5, read_bytes_per_s=1e6)
    own["io_waited"][:] = np.nan
    node = {"disk_busy": np.full(BACK, 0.99), "read_bytes_per_s": np.full(BACK, 5e8), "written_bytes_per_s": np.zeros(BACK)}
    assert codes(a_look(own, node=node)) == []
    own["read_bytes_per_s"][:] = 4.5e8
    assert codes(a_look(own, node=node)) == [Code.STORAGE]


def test_a_full_link_is_told_and_an_unknown_one_only_if_it_is_even():
    own = columns(gpu=0.15, cpus=0.5, received_bytes_per_s=1.1e8)
    assert codes(a_look(own, link_bytes_per_s=1.25e8)) == [Code.NETWORK]
    assert codes(a_look(own, link_bytes_per_s=1.25e9)) == []
    assert codes(a_look(own)) == [Code.NETWORK]
    own["received_bytes_per_s"] *= np.tile([0.1, 1.9], BACK // 2)
    assert codes(a_look(own)) == []


def test_memory_that_is_held_for_nothing():
    own = columns(gpu=0.0, cpus=0.01)
    (said,) = advice(a_look(own, is_batch=False))
    assert said.sentence == "It holds 30 GiB of GPU memory and has computed nothing for 30 min."
    own["gpu_memory_bytes"][:] = 0.5 * GIB
    assert codes(a_look(own, is_batch=False)) == []


def test_cpus_that_work_beside_a_gpu_that_does_not():
    assert codes(a_look(columns(gpu=0.0, cpus=3.0, gpu_memory_bytes=0.0))) == [Code.GPU_UNUSED]


def test_one_of_two_gpus_unused():
    own = columns(gpu=0.9, gpus_held=2.0)
    (said,) = advice(a_look(own, gpus=({"utilisation": 0.87}, {"utilisation": 0.0})))
    assert said.sentence == "GPU 1 is not used: 1 of its 2 GPUs work."
    assert said.saves_gpus == 1
    assert codes(a_look(own, gpus=({"utilisation": 0.87}, {"utilisation": np.nan}))) == []


def test_a_small_batch_is_told_from_multiprocessors_or_else_from_power():
    own = columns(gpu=0.98, cpus=1.0, gpu_memory_bytes=4.0 * GIB)
    (by_sm,) = advice(a_look(own, gpus=({"sm_active": 0.06, "power_w": 600.0},)))
    (by_power,) = advice(a_look(own, gpus=({"power_w": 150.0},)))
    assert (by_sm.code, by_power.code) == (Code.BATCH, Code.BATCH)
    assert "uses 6 % of its multiprocessors, and 90 % of its memory is free" in by_sm.sentence
    assert by_sm.confidence > by_power.confidence
    assert codes(a_look(own, gpus=({"sm_active": 0.7, "power_w": 150.0},))) == []


def test_one_thread_that_does_all_is_told_and_hidden_by_a_better_reason():
    assert codes(a_look(columns(gpu=0.3, cpus=1.0))) == [Code.ONE_THREAD]
    assert codes(a_look(columns(gpu=0.3, cpus=1.0, io_waited=0.7))) == [Code.STORAGE]


def test_heat_and_power():
    own = columns(gpu=0.95)
    (heat,) = advice(a_look(own, gpus=({"throttled_heat": 0.8, "temperature_c": 91.0},)))
    (power,) = advice(a_look(own, gpus=({"throttled_power": 0.9, "throttled_heat": 0.0, "power_w": 695.0},)))
    assert heat.sentence == "GPU 0 is slowed down by heat 80 % of the time, at 91 °C."
    assert power.sentence == "GPU 0 is held back by its power limit 90 % of the time, at 695 W."


def test_memory_near_its_limit_comes_first_of_all():
    said = advice(a_look(columns(gpu=0.23, cpus=3.92, memory_bytes=61.5 * GIB)))
    assert [one.code for one in said] == [Code.HOST_MEMORY, Code.LOADER]
    assert said[0].sentence == "Its memory is nearly full: 61.5 GiB of 64 GiB."
    assert "--memory 96GiB" in said[0].next_step


def test_a_job_that_is_done_and_stays_is_told_and_an_interactive_session_is_not():
    own = columns(gpu=0.9, cpus=1.0)
    for name in ("gpus_used", "cpus"):
        own[name][-40:] = 0.0
    look = a_look(own)
    (said,) = advice(look)
    assert said.sentence == "It seems to have finished: nothing has run in it for 40 min."
    assert codes(replace(look, is_batch=False)) == [Code.MEMORY_HELD]
    own["sent_bytes_per_s"][-40:] = 5e7
    assert Code.FINISHED not in codes(a_look(own))


def test_a_job_that_has_rested_for_all_that_is_known_is_done_too():
    assert Code.FINISHED in codes(a_look(columns(gpu=0.0, cpus=0.0, gpu_memory_bytes=0.0), age_steps=1000))


def test_many_are_told_the_same_as_each_alone():
    looks = [a_look(columns(gpu=gpu, cpus=cpus)) for gpu in (0.0, 0.2, 0.9) for cpus in (0.0, 1.0, 3.95)]
    assert advice_of_all(looks) == [advice(look) for look in looks]
    assert advice_of_all([]) == []


def test_a_session_without_a_gpu_is_only_told_of_its_memory():
    own = columns(gpu=0.0, cpus=3.9, gpus_held=0.0, gpu_memory_bytes=0.0, memory_bytes=63.0 * GIB)
    assert codes(a_look(own, gpus=(), gpu_memory_bytes=0)) == [Code.HOST_MEMORY]


def test_a_shorter_window_says_it_sooner():
    pace = Pace(timedelta(minutes=2))
    assert (pace.step_s, pace.steps, pace.warm_up, pace.least, pace.recent) == (10, 12, 2, 4, 2)
    assert codes(a_look(columns(gpu=0.23, cpus=3.92), age_steps=8), pace) == [Code.LOADER]
