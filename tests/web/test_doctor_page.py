"""The doctor's page and route: what is wrong first, with lines to copy; it fills itself, and looks again when an admin asks."""
import asyncio
from datetime import time

import pytest
from admin_browser import as_user, done_by_people
from house_scene import a_house

from gpufairy.api.doctor import checkup_shape
from gpufairy.control.doctor import FRESH, Doctor
from gpufairy.core.doctor import Finding, Step, Verdict

pytestmark = pytest.mark.slow
NASTY = "<b>x</b>"
BROKEN = Finding("nvml", "NVML", Verdict.BAD, f"the driver does not answer: {NASTY}", "All that is known of GPUs comes from it.", ("sudo reboot", "echo '<i>'"), where="box")
ODD = Finding("no-metrics", "No metrics", Verdict.WARN, "no collector answers here", "Each step.", ("fairy exporter",), steps=(Step("Can the GPUs be read?", Verdict.OK, "yes"),), where="box")
FINE = Finding("disk", "Disk space", Verdict.OK, "900 GiB of 1 TiB are free", "", where="box")


@pytest.fixture
async def scene(tmp_path):
    async with a_house(tmp_path) as found:
        yield found


class Looks:
    """A look that ends when the test says so."""

    def __init__(self, *findings: Finding) -> None:
        self.findings, self.count, self.may_end = findings, 0, asyncio.Event()

    async def __call__(self) -> tuple[Finding, ...]:
        self.count += 1
        await self.may_end.wait()
        return self.findings


async def test_whoever_comes_first_sees_the_page_at_once_and_then_what_was_found(scene):
    looks = Looks(FINE, ODD, BROKEN)
    doctor = Doctor(scene.house, looks)
    admin = await as_user(scene, doctor=doctor)
    assert "The doctor is looking…" in (await admin.get("/admin/doctor")).words
    assert "The doctor is looking…" in (await admin.get("/admin/doctor")).words
    looks.may_end.set()
    await doctor.begin()
    page = await admin.live("/admin/doctor")
    assert looks.count == 1, "two visits, one look"
    assert "1 thing is broken or not safe." in page.words
    assert page.text.index("sudo reboot") < page.text.index("fairy exporter") < page.text.index("900 GiB"), "the worst first"
    assert "Can the GPUs be read?" in page.words
    assert "sudo reboot\necho '<i>'" in page.text
    assert NASTY.encode() not in page.body
    assert b"data-copy=\"fix-nvml\"" in page.body


async def test_an_admin_has_it_look_again_and_that_is_written_down(scene):
    looks = Looks(FINE)
    looks.may_end.set()
    admin = await as_user(scene, doctor=Doctor(scene.house, looks))
    done = await admin.post("/admin/doctor/look")
    assert (done.status, looks.count) == (303, 1)
    assert "Nothing is wrong with the server's host." in (await admin.get("/admin/doctor")).words
    assert ("root", "doctor_looked") in [(who, what) for who, what, _ in await done_by_people(scene)]
    assert (await admin.post("/admin/doctor/operate")).status == 400


async def test_a_server_without_a_doctor_says_so(scene):
    admin = await as_user(scene)
    assert (await admin.get("/admin/doctor")).status == 200
    assert "there is no doctor on this server" in (await admin.post("/admin/doctor/look")).text


async def test_within_a_minute_the_same_is_told_and_later_it_looks_again(scene):
    looks = Looks(FINE)
    looks.may_end.set()
    doctor = Doctor(scene.house, looks)
    first = await doctor.checkup()
    assert await doctor.checkup() is first
    scene.clock.go_on(FRESH)
    assert (await doctor.checkup()).at > first.at
    assert looks.count == 2


async def test_all_who_ask_meanwhile_wait_for_one_look_and_who_leaves_does_not_end_it(scene):
    looks = Looks(ODD)
    doctor = Doctor(scene.house, looks)
    asking = [asyncio.create_task(doctor.checkup()) for _ in range(5)]
    await asyncio.sleep(0)
    asking[0].cancel()
    looks.may_end.set()
    found = await asyncio.gather(*asking[1:])
    assert looks.count == 1
    assert {one.findings for one in found} == {(ODD,)}


async def test_the_route_tells_what_the_command_line_tells(scene):
    looks = Looks(ODD, FINE)
    looks.may_end.set()
    told = checkup_shape(await Doctor(scene.house, looks).checkup())
    assert [(one["check"], one["ok"], one["where"], one["fix"]) for one in told["items"]] == [("no-metrics", True, "box", "fairy exporter"), ("disk", True, "box", None)]
    assert told["at"].endswith("Z")


async def test_the_page_says_when_it_looks_by_night(scene):
    looks = Looks(FINE)
    looks.may_end.set()
    doctor = Doctor(scene.house, looks)
    await doctor.checkup()
    admin = await as_user(scene, doctor=doctor)
    assert "by night it is switched off" in (await admin.get("/admin/doctor")).words
    doctor.nightly = time(4)
    assert "It looks by itself at 04:00 each night, and mends nothing" in (await admin.get("/admin/doctor")).words
