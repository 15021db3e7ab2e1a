"""The exporter, spoken to over its socket as strangers do."""
import contextlib
import gzip
import socket
import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufairy.core.errors import BadInput, Conflict
from gpufairy.node import exporter
from gpufairy.node.exporter import FRESH_S, HEAD_BYTES, MOST_CONNECTIONS, Page, listening, parse_head, parse_listen
from gpufairy.node.render import render
from prometheus import Serving, many_processes
from raw_http import ask


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def page():
    made = Page()
    made.put(b"fairy_up 1\n")
    return made


@pytest.fixture
def served(page):
    with Serving(page) as serving:
        yield serving


def raw(served: Serving) -> socket.socket:
    return socket.create_connection(("127.0.0.1", served.port), timeout=20)


def all_of(connection: socket.socket) -> bytes:
    got = b""
    with contextlib.suppress(ConnectionError):
        while more := connection.recv(65536):
            got += more
    return got


def test_metrics_are_the_bytes_that_are_ready(served, page):
    answer = ask(served.url, "GET", "/metrics")
    assert (answer.status, answer.body) == (200, b"fairy_up 1\n")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    page.put(b"fairy_up 2\n")
    assert ask(served.url, "GET", "/metrics?x=1").body == b"fairy_up 2\n"


@pytest.mark.parametrize(("accepts", "gzipped"), [("gzip", True), ("br, gzip;q=0.5", True), ("gzip;q=0", False), ("gzip; q=0.0", False), ("identity", False)])
def test_a_page_is_compressed_if_asked(served, accepts, gzipped):
    answer = ask(served.url, "GET", "/metrics", headers={"Accept-Encoding": accepts})
    assert (answer.headers.get("content-encoding") == "gzip") is gzipped
    assert (gzip.decompress(answer.body) if gzipped else answer.body) == b"fairy_up 1\n"


def test_a_page_is_compressed_once():
    page = Page()
    page.put(b"x" * 1000)
    assert page.answer(True).body is page.answer(True).body
    page.put(b"y" * 1000)
    assert gzip.decompress(page.answer(True).body) == b"y" * 1000


def test_before_the_first_collection_it_says_so():
    with Serving(Page()) as served:
        answer = ask(served.url, "GET", "/metrics")
        assert (answer.status, answer.body) == (503, b"nothing was collected yet; ask again in a few seconds\n")
        assert ask(served.url, "GET", "/healthz").status == 200


def test_an_old_page_is_not_served_as_if_it_were_new():
    clock = Clock()
    page = Page(clock)
    page.put(b"fairy_up 1\n")
    clock.now_s += FRESH_S
    assert page.answer(False).status == 200
    clock.now_s += 1
    answer = page.answer(False)
    assert (answer.status, answer.body) == (503, b"the last collection was 31 s ago; see the log of this exporter\n")


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/", 200), ("GET", "/healthz", 200), ("GET", "/etc/passwd", 404), ("POST", "/metrics", 405), ("DELETE", "/", 405)])
def test_each_path_has_its_answer(served, method, path, status):
    assert ask(served.url, method, path).status == status


def test_head_has_the_length_and_no_body(served):
    answer = ask(served.url, "HEAD", "/metrics")
    assert (answer.status, answer.headers["content-length"], answer.body) == (200, "11", b"")


def test_a_connection_serves_many_requests(served):
    with raw(served) as connection:
        for _ in range(3):
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert connection.recv(4096).endswith(b"\r\n\r\nok\n")


def test_requests_sent_at_once_are_all_answered_in_order(served):
    with raw(served) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\n\r\n" * 20 + b"GET / HTTP/1.0\r\n\r\n")
        got = all_of(connection)
    assert (got.count(b"\r\n\r\nok\n"), got.count(b"readings for Prometheus")) == (20, 1)


@pytest.mark.parametrize(
    "sent",
    [b"\r\n\r\n", b"GET\r\n\r\n", b"GET /metrics\r\n\r\n", b"GET http://x/ HTTP/1.1\r\n\r\n", b"GET / HTTP/2.0\r\n\r\n", b"GET / HTTP/1.1\r\nnot a field\r\n\r\n",
     b"GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nGET /", b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"\x16\x03\x01\x02\x00\r\n\r\n", b"\xff\xfe / HTTP/1.9\r\n\r\n"],
)  # fmt: skip
def test_what_is_not_understood_is_answered_once_and_closed(served, sent):
    with raw(served) as connection:
        connection.sendall(sent)
        got = all_of(connection)
    assert got.startswith(b"HTTP/1.1 400 ")
    assert got.count(b"HTTP/1.1 ") == 1


def test_a_head_without_end_is_refused(served):
    with raw(served) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(b"GET /metrics HTTP/1.1\r\nX: " + b"x" * (HEAD_BYTES + 100))
        assert all_of(connection).startswith(b"HTTP/1.1 431 ")
    assert ask(served.url, "GET", "/metrics").status == 200


def test_who_sends_a_byte_now_and_then_is_dropped(served, monkeypatch):
    monkeypatch.setattr(exporter, "REQUEST_S", 0.3)
    with raw(served) as connection:
        began_s = time.monotonic()
        connection.sendall(b"GET /metr")
        assert all_of(connection) == b""
    assert time.monotonic() - began_s < 10


@pytest.mark.slow
def test_who_asks_and_never_reads_costs_no_memory_and_is_dropped(served, page, monkeypatch):
    monkeypatch.setattr(exporter, "ANSWER_S", 0.3)
    page.put(b"x" * 4_000_000)
    with raw(served) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(b"GET /metrics HTTP/1.1\r\n\r\n" * 250)
        deadline_s = time.monotonic() + 10
        while ask(served.url, "GET", "/healthz").status == 200 and not ended(connection):
            assert time.monotonic() < deadline_s
    assert ask(served.url, "GET", "/healthz").status == 200


def ended(connection: socket.socket) -> bool:
    """Dropped by the other side, as TCP itself knows (the first byte of tcp_info is the state; 7 is closed, 8 close-wait)."""
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] in (7, 8)


@pytest.mark.slow
def test_strangers_who_hold_connections_do_not_shut_prometheus_out(served):
    with contextlib.ExitStack() as stack:
        for _ in range(3 * MOST_CONNECTIONS):
            stack.enter_context(raw(served))
        assert ask(served.url, "GET", "/metrics").status == 200


def test_who_leaves_in_the_middle_harms_nobody(served):
    for _ in range(20):
        connection = raw(served)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        connection.close()
    assert ask(served.url, "GET", "/metrics").status == 200


def test_a_scrape_of_64_processes_takes_under_5_ms(served, page):
    page.put(render(many_processes(64)))
    took_s = []
    with raw(served) as connection:
        for _ in range(20):
            began_s = time.perf_counter()
            connection.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            got = connection.recv(65536)
            length = int(got.split(b"Content-Length: ")[1].split(b"\r\n")[0]) + got.index(b"\r\n\r\n") + 4
            while len(got) < length:
                got += connection.recv(65536)
            took_s.append(time.perf_counter() - began_s)
    assert min(took_s) < 0.005


@given(st.binary(max_size=300) | st.binary(max_size=200).map(lambda noise: b"GET /metrics HTTP/1.1\r\n" + noise))
def test_no_head_makes_the_reader_stumble(head):
    asked = parse_head(head)
    assert asked is None or asked.path.startswith("/")


@pytest.mark.parametrize(
    ("text", "found"),
    [("127.0.0.1:9835", ("127.0.0.1", 9835)), ("[::1]:80", ("::1", 80)), ("[::]", ("::", 9835)), (":9836", ("0.0.0.0", 9836)), ("gpu01", ("gpu01", 9835)), ("gpu01:0", ("gpu01", 0))],
)
def test_addresses_are_read(text, found):
    assert parse_listen(text) == found


@pytest.mark.parametrize("text", ["", "::1", "::1:80", "a:b", "a:70000", "[::1", "::1]:80", "a b:1", "a:1:2", "[a]:1x"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(BadInput, match="--listen"):
        parse_listen(text)


def test_a_port_that_is_taken_is_named(served):
    with pytest.raises(Conflict, match=f"port {served.port} on 127.0.0.1 is taken"):
        listening("127.0.0.1", served.port)


def test_an_address_of_another_machine_is_refused():
    with pytest.raises(BadInput, match=r"cannot listen on 192.0.2.1"):
        listening("192.0.2.1", 0)


def test_it_listens_on_ipv6_too():
    try:
        listener = listening("::1", 0)
    except BadInput as error:
        pytest.skip(f"no IPv6 here: {error}")
    listener.close()
