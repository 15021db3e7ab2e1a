"""Names and labels of containers: from real daemons, and from sockets that answer badly or not at all."""
import contextlib
import json
import os
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from container_scene import by_hand

from daemons import RealDaemon
from gpufairy.node.container_list import ContainerFacts
from gpufairy.node.containers import GOOD_S, UNKNOWN_AGAIN_S, Containers, EngineSocket, usual_sockets
from images import BUSYBOX_IMAGE
from waits import until

A, B = "a" * 64, "b" * 64


class Time:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture(params=["docker", "podman"])
def daemon(request: pytest.FixtureRequest) -> RealDaemon:
    found: RealDaemon = request.getfixturevalue(f"{request.param}_daemon")
    return found


def watching(*sockets: EngineSocket | Path, clock: Time | None = None, wait_s: float = 10.0) -> Containers:
    those = [EngineSocket(str(one)) if isinstance(one, Path) else one for one in sockets]
    return Containers(lambda: those, monotonic=clock or Time(), wait_s=wait_s)


@pytest.mark.system
def test_a_container_started_by_hand_is_known_by_name_labels_and_image(daemon: RealDaemon):
    with by_hand(daemon, "alice_train", {"user": "alice", "long": "x" * 5000}) as made:
        facts = watching(daemon.socket).facts(made)
        assert facts is not None
        assert (facts.id, facts.name, facts.labels["user"]) == (made, "alice_train", "alice")
        assert facts.image.endswith(BUSYBOX_IMAGE)
        assert "long" not in facts.labels


@pytest.mark.system
def test_a_renamed_container_is_seen_within_half_a_minute(daemon: RealDaemon):
    clock = Time()
    known = watching(daemon.socket, clock=clock)
    with by_hand(daemon, "alice_train") as made:
        assert known.facts(made)
        daemon.ask("POST", f"/containers/{made}/rename?name=bob_train")
        clock.now_s += GOOD_S
        known.refresh()
        until(lambda: known.facts(made).name == "bob_train", "the new name")  # type: ignore[union-attr]


@pytest.mark.system
def test_several_daemons_are_asked_at_once(docker_daemon: RealDaemon, podman_daemon: RealDaemon, folder: Path):
    known = watching(docker_daemon.socket, podman_daemon.socket, folder / "missing")
    with by_hand(docker_daemon, "one") as one, by_hand(podman_daemon, "two") as two:
        facts = known.facts(one)
        assert facts
        assert facts.name == "one"
        assert known.facts(two).name == "two"  # type: ignore[union-attr]
        (trouble,) = known.trouble
        assert str(folder / "missing") in trouble


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fairy-cs-") as made:  # short: a socket's path has at most 107 bytes
        yield Path(made)


@contextlib.contextmanager
def answering(path: Path, *answers: bytes, asked: list[float] | None = None) -> Iterator[None]:
    """Gives each visitor the next answer, the last one to all further ones; an empty one is never sent."""
    server, left = socket.socket(socket.AF_UNIX), list(answers)
    server.bind(str(path))
    server.listen(8)
    open_ones: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                visitor, _ = server.accept()
            except OSError:
                return
            open_ones.append(visitor)
            if asked is not None:
                asked.append(time.monotonic())
            answer = left.pop(0) if len(left) > 1 else left[0]
            with contextlib.suppress(OSError):
                visitor.recv(4096)
                if answer:
                    visitor.sendall(answer)
                    visitor.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join()
        for visitor in open_ones:
            visitor.close()


def said(*containers: dict[str, object]) -> bytes:
    body = json.dumps(containers).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


def one(container_id: str, name: str, **labels: str) -> dict[str, object]:
    return {"Id": container_id, "Names": [f"/{name}"], "Labels": labels, "Image": "torch"}


def test_a_silent_daemon_holds_the_collector_up_once_and_the_others_not_at_all(folder: Path):
    with answering(folder / "silent", b""), answering(folder / "well", said(one(A, "alice"))):
        clock = Time()
        known = watching(folder / "silent", folder / "well", clock=clock, wait_s=0.1)
        began, threads = time.monotonic(), threading.active_count()
        for _ in range(20):
            clock.now_s += UNKNOWN_AGAIN_S
            known.facts(B)
            known.refresh()
        assert time.monotonic() - began < 2
        until(lambda: threading.active_count() <= threads + 1, "all threads but the one that waits to end")
        assert known.facts(A) == ContainerFacts(A, "alice", {}, "torch")


def test_a_daemon_that_falls_silent_leaves_what_it_said(folder: Path):
    clock = Time()
    known = watching(folder / "socket", clock=clock)
    with answering(folder / "socket", said(one(A, "alice"))):
        assert known.facts(A)
    clock.now_s += GOOD_S
    known.refresh()
    (trouble,) = until(lambda: (known.refresh(), known.trouble)[1], "the trouble")
    assert "socket" in trouble
    assert "may be old" in trouble
    assert known.facts(A).name == "alice"  # type: ignore[union-attr]


def test_an_unknown_container_is_not_asked_about_again_and_again(folder: Path):
    asked: list[float] = []
    with answering(folder / "socket", said(), asked=asked):
        clock = Time()
        known = watching(folder / "socket", clock=clock)
        for _ in range(60):
            clock.now_s += 0.25
            assert known.facts(A) is None
            clock.now_s += 0.01
            assert known.facts(B) is None
            known.refresh()
        assert len(asked) == 2


def test_nobody_is_asked_while_nobody_wants_to_know(folder: Path):
    asked: list[float] = []
    with answering(folder / "socket", said(), asked=asked):
        clock = Time()
        known = watching(folder / "socket", clock=clock)
        for _ in range(10):
            clock.now_s += GOOD_S
            known.refresh()
        assert asked == []


def test_about_a_users_slice_that_users_engine_is_believed_and_nobody_elses(folder: Path):
    with answering(folder / "own", said(one(A, "true"))), answering(folder / "user", said(one(A, "false"), one(B, "theirs"))):
        known = watching(EngineSocket(str(folder / "user"), 1001), EngineSocket(str(folder / "own")))
        assert known.facts(A).name == "true"  # type: ignore[union-attr]
        assert known.facts(A, 0).name == "true", "root's engine is the machine's own"  # type: ignore[union-attr]
        assert known.facts(A, 1001) == ContainerFacts(A, "false", {}, "torch", 1001)
        assert known.facts(B, 1001) == ContainerFacts(B, "theirs", {}, "torch", 1001)
        assert known.facts(A, 1002) is None
        assert known.facts(B, 1002) is None
        assert known.facts(B) is None


def test_a_container_asked_about_in_vain_is_found_in_the_next_round(folder: Path):
    asked: list[float] = []
    with answering(folder / "socket", said(), said(), said(one(A, "alice")), asked=asked):
        clock = Time()
        known = watching(folder / "socket", clock=clock)
        for _ in range(3):
            assert known.facts(A) is None
            clock.now_s += UNKNOWN_AGAIN_S
        assert len(asked) == 1
        for _ in range(2):
            clock.now_s += GOOD_S
            known.refresh()
            until(lambda: not known._daemons.is_open(EngineSocket(str(folder / "socket"))), "the round")
        assert known.facts(A).name == "alice"  # type: ignore[union-attr]
        assert len(asked) == 3


def test_an_answer_to_a_question_from_before_a_container_was_is_not_the_last_word(folder: Path):
    asked: list[float] = []
    with answering(folder / "slow", b""), answering(folder / "socket", said(), said(), said(one(A, "alice")), asked=asked):
        clock = Time()
        known = watching(folder / "slow", folder / "socket", clock=clock, wait_s=0.1)
        assert known.facts(B) is None
        for _ in range(2):  # the slow one still has the question about B
            clock.now_s += UNKNOWN_AGAIN_S
            known.facts(A)
        assert until(lambda: known.facts(A), "its name").name == "alice"
        assert len(asked) == 3


def test_a_users_broken_engine_does_not_make_the_machines_unknown(folder: Path):
    users = [EngineSocket(str(folder / f"missing{uid}"), uid) for uid in range(1001, 1101)]
    with answering(folder / "own", said(one(A, "alice"))):
        known = watching(*users, EngineSocket(str(folder / "own")))
        assert known.facts(A)
        assert known.known
        until(lambda: known.refresh() or len(known.trouble) == 5, "some of the users' troubles")
    silent = watching(folder / "own")
    assert silent.facts(A) is None
    assert not silent.known


@pytest.mark.parametrize(
    "answer",
    [
        b"garbage\r\n\r\n",
        b"HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n[{}",
        b"HTTP/1.1 200 OK\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\n\r\n[1]",
        b'HTTP/1.1 200 OK\r\n\r\n[{"Id": "x", "Names": 5}]',
        b'HTTP/1.1 200 OK\r\n\r\n[{"Id": "x", "Labels": [1]}]',
        b"HTTP/1.1 200 OK\r\n\r\n\xff\xfe",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 100_000,
        b"HTTP/1.1 200 OK\r\n\r\n" + b"[" + b" " * 9 * 2**20 + b"]",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000 + b"\r\n[]",
    ],
)
def test_an_answer_that_cannot_be_read_is_trouble_in_words(folder: Path, answer: bytes):
    with answering(folder / "socket", answer):
        known = watching(folder / "socket")
        assert known.facts(A) is None
        (trouble,) = known.trouble
        assert trouble.startswith(str(folder / "socket"))
        assert len(trouble) < 300


@pytest.mark.parametrize("head", ["Content-Length: {}", "Content-Length: {}\r\nConnection: close", "Connection: close"])
def test_a_long_answer_is_read_whole_however_it_ends(folder: Path, head: str):
    body = json.dumps([one(f"{number:064}", f"n{number}") for number in range(3000)]).encode()
    with answering(folder / "socket", f"HTTP/1.1 200 OK\r\n{head.format(len(body))}\r\n\r\n".encode() + body):
        known = watching(folder / "socket")
        assert known.facts(f"{2999:064}").name == "n2999"  # type: ignore[union-attr]
        assert known.trouble == ()


def test_names_are_printable_whatever_a_daemon_says(folder: Path):
    with answering(folder / "socket", said(one(A, "x\ny\u202e" + "z" * 1000))):
        facts = watching(folder / "socket").facts(A)
        assert facts
        assert facts.name.startswith("x?y?zzz")
        assert len(facts.name) < 130


def test_sockets_are_found_where_engines_usually_have_them(folder: Path):
    with contextlib.ExitStack() as stack:
        for name in ("docker.sock", "podman/podman.sock", "user/1001/podman/podman.sock", "user/1002/docker.sock", "user/x/docker.sock"):
            (folder / "run" / name).parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(socket.socket(socket.AF_UNIX)).bind(str(folder / "run" / name))
        os.mkfifo(folder / "run/user/1001/docker.sock")
        found = usual_sockets(folder)
    assert [(Path(one.path).relative_to(folder / "run").as_posix(), one.uid) for one in sorted(found, key=lambda one: (one.uid or 0, one.path))] == [
        ("docker.sock", None), ("podman/podman.sock", None), ("user/1001/podman/podman.sock", 1001), ("user/1002/docker.sock", 1002),
    ]  # fmt: skip
