"""Questions asked aside: few threads for many, and one that is stuck holds nobody up."""
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gpufairy.node import aside
from gpufairy.node.aside import AT_ONCE, Aside
from waits import until

SOURCE = Path(__file__).parents[2] / "src"


def test_many_quick_questions_take_few_threads():
    before, most = threading.active_count(), 0

    def ask(key: int) -> int:
        nonlocal most
        most = max(most, threading.active_count())
        return -key

    asked: Aside[int, int] = Aside(ask, "test")
    assert asked.answers(range(64), 20.0) == {key: -key for key in range(64)}
    assert most <= before + AT_ONCE


def test_only_so_many_are_asked_at_once_and_the_rest_waits():
    free = threading.Event()
    stuck: Aside[int, bool] = Aside(lambda key: free.wait(20), "test")
    threads = threading.active_count()
    assert stuck.answers(range(50), 0.0) == {}
    assert stuck.late() == {}
    assert threading.active_count() <= threads + AT_ONCE
    assert all(map(stuck.is_open, range(50)))
    free.set()
    until(lambda: not any(map(stuck.is_open, range(50))), "their end")
    assert stuck.late() == dict.fromkeys(range(50), True)


def test_those_that_are_stuck_do_not_keep_others_from_being_asked(monkeypatch: pytest.MonkeyPatch):
    free = threading.Event()
    asked: Aside[int, bool] = Aside(lambda key: key < 0 or free.wait(20), "test")
    asked.answers(range(AT_ONCE), 0.0)
    assert asked.answers([-1], 0.05) == {}, "they may only be slow"
    monkeypatch.setattr(aside, "STUCK_S", 0.0)
    assert until(asked.late, "an answer") == {-1: True}
    monkeypatch.setattr(aside, "MOST_STUCK", 0)
    assert asked.answers([-2], 0.05) == {}
    assert asked.is_open(-2)
    free.set()
    until(lambda: not asked.is_open(-2), "its turn")


def test_a_question_that_raises_is_over_and_costs_no_thread(monkeypatch: pytest.MonkeyPatch):
    seen: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda raised: seen.append(str(raised.exc_value)))
    asked: Aside[int, float] = Aside(lambda key: 1 / key, "test")
    for _ in range(2 * AT_ONCE):
        assert asked.answers([0], 20.0) == {}
        assert not asked.is_open(0)
    assert asked.answers([4], 20.0) == {4: 0.25}
    until(lambda: seen == ["float division by zero"] * 2 * AT_ONCE or seen == ["division by zero"] * 2 * AT_ONCE, "all to be told")


def test_many_who_ask_at_the_same_time_all_get_their_answers():
    asked: Aside[int, int] = Aside(lambda key: key, "test")
    found: list[dict[int, int]] = []
    askers = [threading.Thread(target=lambda number=number: found.append(asked.answers(range(number, number + 50), 20.0))) for number in range(0, 400, 50)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert sorted(key for one in found for key in one) == list(range(400))


STARVED = """
import os, resource, time
from gpufairy.node.aside import Aside
os.setuid(65533)
resource.setrlimit(resource.RLIMIT_NPROC, (1, 2))
asked = Aside(lambda key: key, "test")
assert asked.answers(range(3), 0.05) == {}
resource.setrlimit(resource.RLIMIT_NPROC, (2, 2))
until_s, found = time.monotonic() + 20, {}
while len(found) < 3 and time.monotonic() < until_s:
    found |= asked.late()
print(found)
"""


@pytest.mark.system
def test_a_system_that_gives_no_thread_is_asked_again_later():
    if os.geteuid() != 0:
        pytest.skip("to be another user, whose threads are counted, needs root")
    done = subprocess.run([sys.executable, "-c", STARVED], capture_output=True, text=True, env={"PYTHONPATH": str(SOURCE)}, check=False)
    assert (done.stdout, done.stderr) == ("{0: 0, 1: 1, 2: 2}\n", "")


def test_a_caller_waits_no_longer_than_it_said():
    free = threading.Event()
    asked: Aside[int, bool] = Aside(lambda key: free.wait(20), "test")
    began_s = time.monotonic()
    asked.answers(range(20), 0.05)
    assert time.monotonic() - began_s < 2
    free.set()
