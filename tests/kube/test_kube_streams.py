"""Commands, logs and ports of pods on a real kubelet, through a real API server."""
import asyncio
import contextlib
import os
import socket
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gpufairy.engines.contract import Stream
from gpufairy.engines.kube.access import load_access
from gpufairy.engines.kube.api import KubeApi
from gpufairy.engines.kube.errors import KubeRefused, KubeSilent
from gpufairy.engines.kube.exec import STDOUT, V4, exec_channel, exec_stream
from gpufairy.engines.kube.forward import forward
from gpufairy.engines.kube.logs import read_logs
from gpufairy.engines.kube.stream import KubeStream
from kube.cluster import Cluster, sleeping
from kube.connect_proxy import connect_proxy
from kube.fake_api import write_config
from kube.relay import relay
from kube.soon import soon

pytestmark = [pytest.mark.kubernetes, pytest.mark.system, pytest.mark.slow]
NAMESPACE = f"streams-{os.getpid()}"
PATIENCE_S = 30.0
MIB = 2**20
# Speaks, serves a page, and answers a line by itself where somebody else speaks first.
SERVE = "echo first; echo second; mkdir -p /www; echo hello >/www/index.html; httpd -p 127.0.0.1:8080 -h /www; nc -ll -p 7777 -e sh -c 'echo welcome; cat' & sleep 100000"


@pytest.fixture(scope="module", autouse=True)
def pod(cluster: Cluster) -> Iterator[dict[str, Any]]:
    cluster.namespace(NAMESPACE)
    with cluster.pod("box", NAMESPACE, containers=[sleeping("main", command=["sh", "-c", SERVE]), sleeping("side", command=["sleep", "99999"])]) as made:
        yield made


@pytest.fixture
async def api(cluster: Cluster) -> AsyncIterator[KubeApi]:
    async with KubeApi(load_access(cluster.kubeconfig, None, {})) as opened:
        yield opened


async def run(api: KubeApi, *argv: str, terminal: bool = False, columns: int = 80, rows: int = 24, container: str = "main") -> KubeStream:
    return await exec_stream(api, NAMESPACE, "box", container, argv, terminal=terminal, columns=columns, rows=rows)


async def read_to_end(descriptor: int) -> bytes:
    return await asyncio.to_thread(_read_to_end, descriptor)


def _read_to_end(descriptor: int) -> bytes:
    chunks = []
    with contextlib.suppress(ConnectionResetError):
        while chunk := os.read(descriptor, MIB):
            chunks.append(chunk)
    return b"".join(chunks)


async def read_until(descriptor: int, wanted: bytes) -> bytes:
    def reading() -> bytes:
        seen = b""
        while wanted not in seen:
            chunk = os.read(descriptor, 65536)
            assert chunk, seen
            seen += chunk
        return seen

    async with asyncio.timeout(PATIENCE_S):
        return await asyncio.to_thread(reading)


def end_input(stream: KubeStream) -> None:
    os.close(stream.stdin)
    stream.stdin = -1


async def test_a_command_has_its_output_its_errors_and_its_exit_code(api):
    stream: Stream = await run(api, "sh", "-c", "echo out; echo err >&2; exit 7")
    assert await stream.wait() == 7
    assert (await read_to_end(stream.stdout), await read_to_end(stream.stderr)) == (b"out\n", b"err\n")
    await stream.close()


async def test_the_container_is_the_one_that_was_named(api):
    for container in ("main", "side"):
        stream = await run(api, "cat", "/proc/1/cmdline", container=container)
        assert (b"99999" in await read_to_end(stream.stdout)) == (container == "side")
        await stream.close()


async def test_input_ends_alone_and_the_rest_of_the_output_comes(api):
    stream = await run(api, "sh", "-c", "cat; sleep 0.2; echo after")
    os.write(stream.stdin, b"before\n")
    end_input(stream)
    assert await read_to_end(stream.stdout) == b"before\nafter\n"
    assert await stream.wait() == 0
    await stream.close()


async def test_a_terminal_has_its_size_from_the_start_and_is_resized(api):
    stream = await run(api, "sh", terminal=True, columns=111, rows=33)
    assert stream.stdin == stream.stdout == stream.stderr
    os.write(stream.stdin, b"stty size\n")
    await read_until(stream.stdout, b"33 111\r\n")
    stream.resize(140, 50)
    os.write(stream.stdin, b"until stty size | grep -q '50 140'; do :; done; echo re''sized\n")
    await read_until(stream.stdout, b"resized\r\n")
    os.write(stream.stdin, b"exit 3\n")
    assert await stream.wait() == 3
    await stream.close()


async def test_the_keys_of_a_terminal_stand_for_signals(api):
    stream = await run(api, "sh", "-c", "trap 'echo caught; exit 4' INT; echo ready; while :; do sleep 0.05; done", terminal=True)
    await read_until(stream.stdout, b"ready")
    stream.signal(2)
    await read_until(stream.stdout, b"caught")
    assert await stream.wait() == 4
    stream.signal(2)
    await stream.close()


async def test_other_signals_go_where_somebody_carries_them(api):
    stream = await run(api, "cat")
    carried: list[int] = []
    stream.signal(15)
    stream.on_signal = carried.append
    stream.signal(15)
    assert carried == [15]
    await stream.close()


async def test_closing_ends_a_command_that_reads_its_input_and_no_other(api):
    """Should Kubernetes learn to hang up, this is where we hear of it."""
    for argv, terminal, goes_on in ((("cat",), False, b""), (("sleep", "4321"), False, b"4321"), (("sleep", "5432"), True, b"5432")):
        stream = await run(api, "sh", "-c", 'echo mine-$$; exec "$@"', "sh", *argv, terminal=terminal)
        pid = (await read_until(stream.stdout, b"\n")).partition(b"-")[2].decode().strip()
        await stream.close()

        async def is_so(pid: str = pid, goes_on: bytes = goes_on) -> bool:
            seen = await output(api, "sh", "-c", f"cat /proc/{pid}/cmdline 2>/dev/null")
            return goes_on in seen if goes_on else not seen

        await soon(is_so, f"{argv} to be as it should")
        await output(api, "kill", "-9", pid)


async def output(api: KubeApi, *argv: str) -> bytes:
    stream = await run(api, *argv)
    try:
        return await read_to_end(stream.stdout)
    finally:
        await stream.close()


async def test_megabytes_go_both_ways_unchanged(api):
    stream = await run(api, "cat")
    sent = os.urandom(MIB) * 24
    writing = asyncio.create_task(asyncio.to_thread(_write_all, stream, sent))
    got = await read_to_end(stream.stdout)
    await writing
    assert await stream.wait() == 0
    assert got == sent
    await stream.close()


def _write_all(stream: KubeStream, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(stream.stdin, view[:65536]) :]
    end_input(stream)


async def test_output_that_nobody_reads_waits_and_one_whose_reader_is_gone_is_thrown_away(api):
    stream = await run(api, "sh", "-c", "head -c 20000000 /dev/zero; echo done >&2; exit 5")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await stream.wait()
    os.close(stream.stdout)
    stream.stdout = -1
    assert await read_to_end(stream.stderr) == b"done\n"
    assert await stream.wait() == 5
    await stream.close()


async def test_a_program_that_is_not_there_is_127_with_its_words_as_in_a_shell(api):
    stream = await run(api, "no-such-program")
    assert await stream.wait() == 127
    assert await read_to_end(stream.stderr) == b'exec: "no-such-program": executable file not found in $PATH\n'
    assert isinstance(stream.trouble, KubeRefused)
    await stream.close()
    stream = await run(api, "/etc", terminal=True)
    assert await stream.wait() == 126
    assert b"permission denied" in (await read_to_end(stream.stdout)).lower()
    await stream.close()


async def test_what_cannot_be_opened_is_refused_in_words(api):
    with pytest.raises(KubeRefused, match=rf'refused to run sh in pod {NAMESPACE}/none: pods "none" not found \(404 NotFound\)'):
        await exec_stream(api, NAMESPACE, "none", "main", ["sh"], terminal=False)
    with pytest.raises(KubeRefused, match=r"container none is not valid for pod box \(400 BadRequest\)"):
        await run(api, "sh", container="none")


async def test_closing_one_that_floods_is_quick(api):
    stream = await run(api, "cat", "/dev/zero", terminal=False)
    await asyncio.to_thread(os.read, stream.stdout, 1)
    began = time.monotonic()
    await stream.close()
    assert time.monotonic() - began < 5
    assert (stream.stdin, stream.stdout) == (-1, -1)


async def test_as_messages_it_is_read_without_descriptors(api):
    channel = await exec_channel(api, NAMESPACE, "box", "main", ["tr", "a-z", "A-Z"], terminal=False)
    await channel.write(b"loud")
    await channel.end_input()
    assert [part async for part in channel] == [(STDOUT, b"LOUD")]
    assert channel.exit_code == 0
    with pytest.raises(BrokenPipeError):
        await channel.write(b"more")
    await channel.close()


async def test_a_server_that_speaks_only_version_4_serves_but_for_the_end_of_input(api, monkeypatch):
    monkeypatch.setattr("gpufairy.engines.kube.exec.V5", V4)
    stream = await run(api, "head", "-n", "1")
    os.write(stream.stdin, b"one\ntwo\n")
    assert await read_to_end(stream.stdout) == b"one\n"
    assert await stream.wait() == 0
    await stream.close()


def over(folder: Path, cluster: Cluster, server: str, **more: Any) -> KubeApi:
    path = write_config(folder, server, {"token": cluster.token}, **{"certificate-authority": str(cluster.authority)}, **more)
    return KubeApi(load_access(path, None, {}))


async def test_a_way_that_is_cut_ends_the_stream_with_255_and_the_reason(cluster, tmp_path):
    with relay(cluster.port) as way:
        async with over(tmp_path, cluster, f"https://127.0.0.1:{way.port}") as api:
            stream = await run(api, "cat")
            os.write(stream.stdin, b"x")
            await read_until(stream.stdout, b"x")
            way.cut()
            assert await stream.wait() == 255
            assert await read_to_end(stream.stdout) == b""
            assert isinstance(stream.trouble, KubeSilent)
            assert "broke off" in str(stream.trouble)
            await stream.close()
            with pytest.raises(KubeSilent, match="cannot be reached"):
                await run(api, "cat")


async def test_streams_go_through_a_proxy_and_to_a_server_of_another_name(cluster, tmp_path):
    with connect_proxy() as proxy, relay(cluster.port) as way:
        async with over(tmp_path, cluster, f"https://localhost:{way.port}", **{"proxy-url": proxy.url, "tls-server-name": "127.0.0.1"}) as api:
            assert await output(api, "echo", "through") == b"through\n"
        assert proxy.asked == [f"localhost:{way.port}"]
        async with over(tmp_path, cluster, f"https://localhost:{way.port}") as api:
            with pytest.raises(KubeSilent, match="does not trust"):
                await run(api, "true")


async def test_a_wrong_token_opens_no_stream(cluster, tmp_path):
    path = write_config(tmp_path, cluster.url, {"token": "wrong"}, **{"certificate-authority": str(cluster.authority)})
    async with KubeApi(load_access(path, None, {})) as api:
        with pytest.raises(KubeRefused, match=r"401 Unauthorized"):
            await run(api, "true")


async def log_of(api: KubeApi, **options: Any) -> bytes:
    return b"".join([chunk async for chunk in read_logs(api, NAMESPACE, "box", "main", **{"follow": False, **options})])


async def test_a_log_is_read_whole_from_its_end_from_a_time_and_up_to_a_size(api):
    assert await log_of(api) == b"first\nsecond\n"
    assert await log_of(api, tail_lines=1) == b"second\n"
    assert await log_of(api, limit_bytes=3) == b"fir"
    assert await log_of(api, since_time=datetime.now(UTC) + timedelta(hours=1)) == b""
    assert await log_of(api, since_time=datetime.now(UTC) - timedelta(hours=1)) == b"first\nsecond\n"
    assert (await log_of(api, timestamps=True)).splitlines()[0].endswith(b"Z first")
    with pytest.raises(KubeRefused, match=r"refused to get log of pod"):
        await log_of(api, previous=True)


async def test_a_log_is_followed_until_the_container_ends(cluster, api):
    talks = sleeping("main", command=["sh", "-c", "echo one; until [ -e /go ]; do sleep 0.05; done; echo two"])
    with cluster.pod("talks", NAMESPACE, containers=[talks], restartPolicy="Never"):
        following = read_logs(api, NAMESPACE, "talks", "main", follow=True)
        assert await anext(following) == b"one\n"
        stream = await exec_stream(api, NAMESPACE, "talks", "main", ["touch", "/go"], terminal=False)
        await stream.wait()
        await stream.close()
        assert b"".join([chunk async for chunk in following]) == b"two\n"


async def test_following_a_log_over_a_way_that_is_cut_is_silence_not_its_end(cluster, tmp_path):
    with relay(cluster.port) as way:
        async with over(tmp_path, cluster, f"https://127.0.0.1:{way.port}") as api:
            following = read_logs(api, NAMESPACE, "box", "main", follow=True)
            await anext(following)
            way.cut()
            with pytest.raises(KubeSilent, match=r"broke off"):
                await asyncio.wait_for(_rest(following), PATIENCE_S)


async def _rest(chunks: AsyncIterator[bytes]) -> bytes:
    return b"".join([chunk async for chunk in chunks])


async def asked(connection: socket.socket, request: bytes) -> bytes:
    loop = asyncio.get_running_loop()
    answer = b""
    async with asyncio.timeout(PATIENCE_S):
        if request:
            await loop.sock_sendall(connection, request)
        while chunk := await loop.sock_recv(connection, 65536):
            answer += chunk
    return answer


async def test_a_port_of_the_pods_own_loopback_is_reached_and_several_at_once(api):
    async def page() -> bytes:
        with await forward(api, NAMESPACE, "box", 8080) as connection:
            return await asked(connection, b"GET / HTTP/1.0\r\n\r\n")

    for answer in await asyncio.gather(*(page() for _ in range(5))):
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert answer.endswith(b"hello\n")


async def test_one_that_speaks_first_is_heard_and_ended_by_closing(api):
    loop = asyncio.get_running_loop()
    connection = await forward(api, NAMESPACE, "box", 7777)
    async with asyncio.timeout(PATIENCE_S):
        assert await loop.sock_recv(connection, 100) == b"welcome\n"
        await loop.sock_sendall(connection, b"echo\n")
        assert await loop.sock_recv(connection, 100) == b"echo\n"
        connection.close()
    await soon(lambda: not api._kept, "its carrier to end")


async def test_a_port_where_nobody_listens_is_refused(api, monkeypatch):
    monkeypatch.setattr("gpufairy.engines.kube.forward.SETTLED_S", 10)  # a busy machine may take its time
    with pytest.raises(KubeRefused, match=rf"Could not connect to port 9 of pod {NAMESPACE}/box: nobody listens there") as told:
        await forward(api, NAMESPACE, "box", 9)
    assert told.value.reason == "NotListening"
    with pytest.raises(KubeRefused, match=r"404 NotFound"):
        await forward(api, NAMESPACE, "none", 9)


async def test_one_that_ended_its_sending_still_hears_and_is_ended_by_closing(api):
    connection = await forward(api, NAMESPACE, "box", 8080)
    await asyncio.get_running_loop().sock_sendall(connection, b"GET / HTTP/1.0\r\n\r\n")
    connection.shutdown(socket.SHUT_WR)
    assert (await asked(connection, b"")).endswith(b"hello\n")
    connection.close()
    speaking = await forward(api, NAMESPACE, "box", 7777)
    speaking.shutdown(socket.SHUT_WR)
    speaking.close()
    await soon(lambda: not api._kept, "its carrier to end")


async def test_a_name_leads_nowhere_else(api):
    with pytest.raises(KubeRefused, match=r"40[034]"):
        await exec_stream(api, NAMESPACE, "box/../box", "main", ["true"], terminal=False)


async def test_descriptors_are_all_given_back(api):
    before = len(os.listdir("/proc/self/fd"))
    for terminal in (True, False):
        for _ in range(3):
            stream = await run(api, "true", terminal=terminal)
            await stream.wait()
            await stream.close()
    (await forward(api, NAMESPACE, "box", 8080)).close()
    await soon(lambda: len(os.listdir("/proc/self/fd")) == before, "no more than before")


async def test_closing_the_client_ends_its_connections(cluster):
    async with KubeApi(load_access(cluster.kubeconfig, None, {})) as api:
        connection = await forward(api, NAMESPACE, "box", 7777)
    with connection:
        connection.settimeout(PATIENCE_S)
        assert connection.recv(100) in (b"welcome\n", b"")
