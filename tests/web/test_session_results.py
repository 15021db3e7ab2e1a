"""What a session left, on its page: listed, fetched whole or file by file, and never shown by the browser."""
import io
import re
import tarfile
from datetime import timedelta

import pytest
from house_scene import a_house
from session_browser import a_browser

from gpufairy.core.workload import workload_id

pytestmark = pytest.mark.slow

NASTY = '<img src=x onerror="alert(1)">.html'


@pytest.fixture
async def scene(tmp_path):
    async with a_house(tmp_path) as made:
        made.browser = await a_browser(made)
        yield made


async def a_job(scene, files: dict[str, bytes], **fields):
    session = await scene.submit(**{"kind": "batch", "command": ["train"], "name": "job", **fields})
    await scene.rest()
    session = await scene.now(session)
    scene.containers.running[workload_id(session)].results.update(files)
    return session


async def test_files_are_listed_with_their_sizes_and_fetched_one_by_one(scene):
    await a_job(scene, {"out.txt": b"done", "run/model.bin": bytes(2048)})
    page = await scene.browser.get("/sessions/job")
    for words in ("Results", "2 files, 2 KiB", "out.txt", "4 B", "run/model.bin", "All as an archive"):
        assert words in page.words
    file = await scene.browser.get("/sessions/job/results/run/model.bin")
    assert (file.status, file.body) == (200, bytes(2048))
    assert file.headers["content-type"] == "application/octet-stream"
    assert file.headers["content-length"] == "2048"
    assert file.headers["x-content-type-options"] == "nosniff"
    assert file.headers["content-disposition"].startswith("attachment; filename=\"model.bin\"")


async def test_all_of_them_come_as_one_archive(scene):
    await a_job(scene, {"out.txt": b"done"})
    answer = await scene.browser.get("/sessions/job/results")
    assert answer.headers["content-disposition"].startswith("attachment; filename=\"job.tar\"")
    with tarfile.open(fileobj=io.BytesIO(answer.body)) as archive:
        assert archive.getnames() == ["out.txt"]


async def test_a_name_with_markup_is_text_on_the_page_and_in_the_header(scene):
    await a_job(scene, {NASTY: b"<script>alert(1)</script>", "결과.csv": b"x"})
    page = await scene.browser.get("/sessions/job")
    assert b"<img" not in page.body
    (href,) = [found for found in re.findall(rb'href="(/sessions/job/results/[^"]+)"', page.body) if b"img" in found]
    assert b"%3Cimg%20src%3Dx" in href
    for name in (NASTY, "결과.csv"):
        file = await scene.browser.get(f"/sessions/job/results/{name}")
        assert file.status == 200
        assert file.headers["content-disposition"].isascii()
        assert not set("<>\r\n") & set(file.headers["content-disposition"])


async def test_a_name_of_two_lines_is_in_the_archive_alone(scene):
    await a_job(scene, {"x\r\nX-Evil: 1": b"x", "out.txt": b"done"})
    page = await scene.browser.get("/sessions/job")
    assert b"X-Evil" not in page.body
    assert "2 files, 5 B" in page.words
    assert "and 1 more, in the archive" in page.words


async def test_a_job_that_left_nothing_teaches_how_it_is_done(scene):
    await a_job(scene, {})
    page = await scene.browser.get("/sessions/job")
    assert "It has left none yet. What a job writes into the folder $FAIRY_RESULTS" in page.words
    assert (await scene.browser.get("/sessions/job/results")).status == 404
    assert (await scene.browser.get("/sessions/job/results/none")).status == 404


async def test_one_that_is_over_says_how_long_they_are_kept(scene):
    session = await a_job(scene, {"out.txt": b"done"})
    scene.containers.exit(workload_id(session), 0)
    scene.clock.go_on(timedelta(seconds=1))
    await scene.rest()
    assert "after its end: fetch what you need." in (await scene.browser.get(f"/sessions/{session.id}")).words


async def test_a_page_that_is_open_looks_for_them_once_it_is_over(scene, monkeypatch):
    session, looks = await a_job(scene, {"out.txt": b"done"}), []
    files = scene.house.engine.result_files
    monkeypatch.setattr(scene.house.engine, "result_files", lambda *asked: looks.append(asked) or files(*asked))
    assert b"data-kept" in (await scene.browser.live("/sessions/job")).body
    assert looks == []
    scene.containers.exit(workload_id(session), 0)
    await scene.rest()
    assert "out.txt" in (await scene.browser.live(f"/sessions/{session.id}")).words


async def test_an_interactive_session_without_any_says_nothing_of_them(scene):
    await a_job(scene, {}, kind="interactive", command=["sleep"])
    assert "Results" not in (await scene.browser.get("/sessions/job")).words


async def test_of_many_files_the_first_are_named_and_the_others_are_in_the_archive(scene):
    await a_job(scene, {f"{number:03}.txt": b"x" for number in range(60)})
    assert "and 10 more, all in the archive" in (await scene.browser.get("/sessions/job")).words


async def test_nobody_else_fetches_them(scene):
    await a_job(scene, {"out.txt": b"done"})
    await scene.house.registry.ensure_user("bob")
    _, token = await scene.house.registry.create_token("bob", "cli", "full", None)
    for path in ("results", "results/files", "results/files/out.txt"):
        assert (await scene.browser.api("GET", f"/sessions/job/{path}", token)).status == 404


async def test_the_api_lists_and_sends_the_same(scene):
    await a_job(scene, {"out.txt": b"done", "a/b": b"12"})
    _, token = await scene.house.registry.create_token("ann", "cli", "full", None)
    listed = (await scene.browser.api("GET", "/sessions/job/results/files", token)).json()
    assert [(one["path"], one["size_bytes"]) for one in listed["items"]] == [("a/b", 2), ("out.txt", 4)]
    assert (listed["count"], listed["size_bytes"], listed["whole"]) == (2, 6, True)
    file = await scene.browser.api("GET", "/sessions/job/results/files/a/b", token)
    assert (file.body, file.headers["x-content-type-options"]) == (b"12", "nosniff")
