"""The API's own promises: idempotency keys, paging, long polls, events."""
import json
import statistics
import threading
import time

import pytest

from raw_http import ask
from waits import until, wait_for_state

pytestmark = pytest.mark.slow

SESSIONS = "/api/v1/sessions"


def test_a_submit_sent_twice_is_one_session(server, fairy):
    body = {"name": "once", "gpus": "0", "command": ["true"]}
    first, again = fairy.submit(body, key="k-1"), fairy.submit(body, key="k-1")
    assert first["id"] == again["id"]
    other = ask(server.url, "POST", SESSIONS, token=server.token, body={**body, "name": "two"}, headers={"Idempotency-Key": "k-1"})
    assert other.status == 409


def test_a_repeated_submit_of_many_gives_the_same_many(fairy):
    body = {"gpus": "0", "command": ["true"]}
    first, again = fairy.submit(body, count=3, key="k-3"), fairy.submit(body, count=3, key="k-3")
    assert [s["id"] for s in first["items"]] == [s["id"] for s in again["items"]]


def test_pages_cover_everything_once_newest_first(server, fairy):
    fairy.submit({"name": "page", "gpus": "0", "command": ["true"]}, count=7)
    seen, after = [], ""
    while after is not None:
        page = ask(server.url, "GET", f"{SESSIONS}?all=1&limit=3{after and f'&after={after}'}", token=server.token).json
        assert len(page["items"]) <= 3
        seen += [session["id"] for session in page["items"]]
        after = page["next"]
    assert len(seen) == len(set(seen))
    assert seen == [session["id"] for session in fairy.sessions(ended=True)]


def test_lists_are_filtered_by_state_and_name(server, fairy):
    fairy.submit({"name": "sleeper", "gpus": "0", "command": ["sleep", "600"]})
    wait_for_state(fairy, "sleeper", "RUNNING")
    running = ask(server.url, "GET", f"{SESSIONS}?state=RUNNING", token=server.token).json["items"]
    assert [session["name"] for session in running] == ["sleeper"]
    by_name = ask(server.url, "GET", f"{SESSIONS}?name=sleeper", token=server.token).json["items"]
    assert len(by_name) == 1
    fairy.stop("sleeper")


def test_a_session_reads_as_promised(fairy):
    fairy.submit({"name": "shape", "gpus": "0.5", "cpus": 4, "memory": "16GiB", "command": ["python", "train.py"], "workdir": "/"})
    session = wait_for_state(fairy, "shape", "ENDED")
    promised = "id name owner team kind state outcome exit_code why request seat forecast_start submitted_at started_at ended_at attempt"
    assert session.keys() >= set(promised.split())
    assert session["request"].items() >= {"gpus": "0.5", "cpus": 4, "memory_bytes": 17179869184, "command": ["python", "train.py"]}.items()
    assert session["seat"]["gpus"][0].keys() >= {"index", "uuid", "share", "memory_bytes", "simulated", "enforced", "accounted"}
    assert session["submitted_at"].endswith("Z")


def test_a_long_poll_answers_when_something_changes_and_not_before(fairy):
    fairy.submit({"name": "poll", "gpus": "0", "command": ["sleep", "600"]})
    session = wait_for_state(fairy, "poll", "RUNNING")
    waiter, answers = fairy.again(), []
    thread = threading.Thread(target=lambda: answers.append(waiter.wait("poll", session["revision"], 30)))
    thread.start()
    fairy.stop("poll")
    thread.join(10)
    waiter.close()
    assert answers[0]["revision"] > session["revision"]


def test_events_are_streamed_as_they_happen_and_resume_by_number(server, fairy):
    stream = fairy.again()
    seen: list[dict] = []
    ended = threading.Event()

    def listen():
        for event in stream.events(follow=True, after="0"):
            seen.append(event)
            if event["session"] == "eventful" and event["state"] == "ENDED":
                ended.set()
                return

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    fairy.submit({"name": "eventful", "gpus": "0", "command": ["true"]})
    assert ended.wait(20)
    mine = [event for event in seen if event["session"] == "eventful"]
    assert [event["what"] for event in mine][:3] == ["submitted", "placed", "launch_ordered"]
    assert [event["number"] for event in seen] == sorted(event["number"] for event in seen)
    whole = ask(server.url, "GET", f"/api/v1/events?after={mine[0]['number'] - 1}&limit=1000", token=server.token).json["items"]
    assert [event for event in whole if event["session"] == "eventful"] == mine
    stream.close()


def test_every_change_of_a_session_is_an_event(fairy):
    fairy.submit({"name": "told", "gpus": "0", "command": ["sleep", "600"]})
    wait_for_state(fairy, "told", "RUNNING")
    fairy.stop("told")
    wait_for_state(fairy, "told", "ENDED")
    events = fairy.session_events("told")
    whats = [event["what"] for event in events]
    assert whats == ["submitted", "placed", "launch_ordered", "ready", "stop_wanted", "told_to_stop", "gone"]
    assert events[4]["actor"] == fairy.me()["name"]


def test_the_description_names_every_route_and_docs_are_readable(server):
    described = ask(server.url, "GET", "/api/v1/openapi.json").json
    page = ask(server.url, "GET", "/docs").body.decode()
    assert all(path in page for path in described["paths"])
    assert "<script" not in page


def test_logs_can_be_read_on_from_a_byte(server, fairy):
    fairy.submit({"name": "talk", "gpus": "0", "command": ["sh", "-c", "printf 0123456789"]})
    wait_for_state(fairy, "talk", "ENDED")
    assert ask(server.url, "GET", f"{SESSIONS}/talk/logs?from=7", token=server.token).body == b"789"
    assert ask(server.url, "GET", f"{SESSIONS}/talk/logs?follow=1", token=server.token).body == b"0123456789"


def test_keys_are_checked_kept_and_removed(fairy):
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGk3pQ2hUqM1c2pYpBzWlJ1fHcS3f5vI2hXkqZ3l9m0a me@laptop"
    added = fairy.add_key({"key": key})
    assert added["fingerprint"].startswith("SHA256:")
    kept = fairy.keys()
    assert [k["fingerprint"] for k in kept] == [added["fingerprint"]]
    fairy.remove_key(added["fingerprint"])
    assert fairy.keys() == []


def test_who_holds_a_gpu_is_shown_to_all_and_the_sessions_name_is_not(fairy, make_user):
    lee = make_user("lee")
    fairy.submit({"name": "private-name", "gpus": "0.5", "command": ["sleep", "600"]})
    wait_for_state(fairy, "private-name", "RUNNING")
    assert lee.gpus()[0]["holders"] == [{"session": None, "owner": fairy.me()["name"], "share": 0.5, "profile": None}]
    assert fairy.gpus()[0]["holders"][0]["session"] == "private-name"
    fairy.stop("private-name")
    wait_for_state(fairy, "private-name", "ENDED")


def test_anybody_with_a_token_gets_a_link_to_the_page_that_works_once(server, make_user):
    link = make_user("mia").sign_in_link()
    path = link.removeprefix(server.url)
    assert [ask(server.url, "GET", path).status for _ in range(2)] == [303, 401]


def test_the_queue_shows_everybodys_place_and_hides_others_names(fairy, make_user):
    kim = make_user("kim")
    fairy.submit({"name": "hog", "gpus": "2", "command": ["sleep", "600"]})
    wait_for_state(fairy, "hog", "RUNNING")
    kim.submit({"name": "kims", "gpus": "1", "command": ["true"]})
    fairy.submit({"name": "roots", "gpus": "1", "command": ["true"]})
    queue = until(lambda: (rows := kim.queue()["items"]) and len(rows) == 2 and rows, "both to wait")
    assert {(row["owner"], row["name"]) for row in queue} == {("kim", "kims"), (fairy.me()["name"], None)}
    assert json.dumps(queue).count("forecast_start") == 2
    fairy.stop("hog")
    for client, name in ((kim, "kims"), (fairy, "roots")):
        wait_for_state(client, name, "ENDED")


def test_answers_on_a_kept_connection_come_without_delay(server):
    """A listener of another protocol number once cost 40 ms a request: the kernel waited for more to send."""
    with server.client() as client:
        taken = []
        for _ in range(20):
            began = time.monotonic()
            client.me()
            taken.append(time.monotonic() - began)
    assert statistics.median(taken) < 0.02
