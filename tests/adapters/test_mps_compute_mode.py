"""The compute mode of a GPU that is shared: exclusive before the first fraction, back as it was after the last, also across crashes."""
from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters.mps_scene import GPU, Scene, a_share, events, mps_scene
from fake_nvml import FakeGpu, FakeMachine, FakeNvml
from gpufairy.core.errors import EngineRefused
from gpufairy.devices.compute_mode import KeptComputeMode

pytestmark = pytest.mark.slow  # each is quick; all of them are not

NOT_SUPPORTED, NO_PERMISSION = 3, 4
DEFAULT, PROHIBITED, EXCLUSIVE = 0, 2, 3


class Machine:
    def __init__(self, folder: Path) -> None:
        self.fake = FakeNvml(folder)
        self.folder = folder / "mps"
        self.show(FakeGpu(uuid=GPU))

    def show(self, *gpus: FakeGpu, **more: object) -> None:
        self.fake.write(FakeMachine(gpus, **more))

    def kept(self, limit_s: float = 30.0) -> KeptComputeMode:
        return KeptComputeMode(self.folder, env=self.fake.env, limit_s=limit_s)

    @property
    def mode(self) -> int:
        file = self.fake.script.with_name(f"{self.fake.script.name}.compute_mode.{GPU}")
        return int(file.read_text()) if file.exists() else DEFAULT

    @mode.setter
    def mode(self, mode: int) -> None:
        self.fake.script.with_name(f"{self.fake.script.name}.compute_mode.{GPU}").write_text(str(mode))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with mps_scene(tmp_path) as made:
        yield made


async def test_the_mode_is_exclusive_while_shared_and_then_what_it_was(machine):
    machine.mode = PROHIBITED
    await machine.kept()(GPU, True)
    assert machine.mode == EXCLUSIVE
    await machine.kept()(GPU, False)
    assert machine.mode == PROHIBITED


async def test_a_second_time_does_not_take_our_own_mode_for_the_former(machine):
    await machine.kept()(GPU, True)
    await machine.kept()(GPU, True)
    await machine.kept()(GPU, False)
    assert machine.mode == DEFAULT


async def test_a_mode_that_was_never_changed_is_left_alone(machine):
    machine.mode = PROHIBITED
    await machine.kept()(GPU, False)
    assert machine.mode == PROHIBITED


async def test_what_the_driver_refuses_is_said_in_words(machine):
    machine.show(FakeGpu(uuid=GPU, fails={"nvmlDeviceSetComputeMode": NO_PERMISSION}))
    with pytest.raises(EngineRefused, match="cannot be set: Insufficient Permissions") as refused:
        await machine.kept()(GPU, True)
    assert "as root" in refused.value.next_step


async def test_a_gpu_in_mig_mode_is_refused(machine):
    machine.show(FakeGpu(uuid=GPU, mig=True))
    with pytest.raises(EngineRefused, match="cut by MIG"):
        await machine.kept()(GPU, True)


async def test_a_gpu_that_cannot_be_cut_is_not_taken_for_cut(machine):
    machine.show(FakeGpu(uuid=GPU, name="NVIDIA GeForce RTX 4090"))
    await machine.kept()(GPU, True)
    assert machine.mode == EXCLUSIVE


async def test_an_unknown_gpu_and_a_missing_driver_are_refused(machine, tmp_path):
    with pytest.raises(EngineRefused, match="cannot be read: Not Found"):
        await machine.kept()("GPU-unknown", True)
    with pytest.raises(EngineRefused, match="cannot be read"):
        await KeptComputeMode(tmp_path, env={**machine.fake.env, "FAIRY_FAKE_NVML": "/nowhere"})(GPU, True)


async def test_a_driver_that_hangs_is_given_up(machine):
    machine.show(FakeGpu(uuid=GPU), hang=("nvmlDeviceGetComputeMode",))
    with pytest.raises(EngineRefused, match="did not answer"):
        await machine.kept(limit_s=1.0)(GPU, True)


async def test_a_crash_between_the_mode_and_the_daemon_is_mended_when_nobody_comes(scene, machine):
    kept = machine.kept()

    async def crash(gpu: str, exclusive: bool) -> None:
        await kept(gpu, exclusive)
        raise EngineRefused("the machine lost power")

    scene.mps = scene.another(compute_mode=crash)
    with pytest.raises(EngineRefused):
        await scene.share()
    assert machine.mode == EXCLUSIVE
    scene.mps = scene.another(compute_mode=machine.kept())
    assert await scene.turn() == []
    assert events(await scene.turn(after_s=61)) == ["ended"]
    assert machine.mode == DEFAULT
    assert scene.another().status() == []


async def test_a_crash_between_the_mode_and_the_daemon_is_mended_for_the_next_session(scene, machine):
    scene.fake.script(start_fails="power lost")
    scene.mps = scene.another(compute_mode=machine.kept())
    with pytest.raises(EngineRefused):
        await scene.share()
    scene.fake.script()
    scene.mps = scene.another(compute_mode=machine.kept())
    assert await scene.turn(a_share()) == []
    assert scene.status().daemon_pid
    await scene.turn(after_s=61)
    assert events(await scene.turn(after_s=61)) == ["ended"]
    assert machine.mode == DEFAULT


async def test_the_note_is_written_before_the_mode_is_changed(scene):
    seen = []
    scene.mode.before = lambda exclusive: seen.append((scene.folder / GPU / "daemon.json").exists())
    await scene.share()
    assert seen == [True]


async def test_a_mode_that_cannot_be_set_back_is_told_and_tried_again(scene):
    await scene.share()

    def refuse(exclusive: bool) -> None:
        raise EngineRefused("the driver is busy", "Wait.")

    scene.mode.before = refuse
    await scene.turn(after_s=61)
    assert events(await scene.turn(after_s=61)) == ["not_ended"]
    scene.mode.before = lambda exclusive: None
    assert events(await scene.turn()) == ["ended"]
