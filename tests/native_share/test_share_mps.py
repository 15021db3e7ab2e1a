"""MPS: our folder, percentage and limits, whatever the user's environment says; and nothing at all where nobody serves."""
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from share_scene import MIB, Box, gpu_line

from fake_cuda import Card

pytestmark = pytest.mark.slow  # each is quick; all of them are not

RED, BLUE = Card("GPU-aaaaaaaa-1111-2222-3333-00000000000a"), Card("GPU-bbbbbbbb-1111-2222-3333-00000000000b")
NOBODY_SERVES = "805"


@pytest.fixture
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("mps")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(folder / "control"))
        listening.listen(64)
        yield folder


def environment(box: Box) -> dict[str, str]:
    """As the driver saw it when it began."""
    return dict(line.removeprefix("env ").split("=", 1) for line in box.cuda.log() if line.startswith("env "))


def test_the_drivers_environment_is_ours(box: Box, served: Path) -> None:
    box.write_limits(gpu_line(box.cuda.cards[0], 20480 * MIB), f"mps {served}")
    with box.client() as client:
        client.do("begin 0")
    assert environment(box) == {
        "CUDA_MPS_PIPE_DIRECTORY": str(served), "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=20480M",
    }  # fmt: skip


def test_the_users_environment_does_not_win(box: Box, served: Path) -> None:
    box.write_limits(gpu_line(box.cuda.cards[0], 512 * MIB, sm_percent=25), f"mps {served}")
    wish = {
        "CUDA_MPS_PIPE_DIRECTORY": "/nowhere", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "100", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "7=90G", "CUDA_MPS_CLIENT_PRIORITY": "0",
        "CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING": "1",
    }  # fmt: skip
    with box.client(**wish) as client:
        client.do("begin 0")
    assert environment(box) == {
        "CUDA_MPS_PIPE_DIRECTORY": str(served), "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=512M",
    }  # fmt: skip


def test_without_mps_the_environment_is_left_alone(box: Box) -> None:
    with box.client(CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="30") as client:
        client.do("begin 0")
    assert environment(box) == {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "30"}


@pytest.mark.parametrize("what", ["no folder", "no socket", "a file", "nobody listens", "not listening"])
def test_a_pipe_folder_that_nobody_serves_is_an_error_not_the_whole_gpu(box: Box, tmp_path: Path, what: str) -> None:
    folder = tmp_path / "m"
    box.write_limits(gpu_line(box.cuda.cards[0], 512 * MIB), f"mps {folder}")
    kept = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if what != "no folder":
        folder.mkdir()
    if what == "a file":
        (folder / "control").touch()
    elif what in ("nobody listens", "not listening"):
        kept.bind(str(folder / "control"))
    if what == "nobody listens":
        kept.close()
    with kept, box.client() as client:
        assert client.ask("begin 0") == NOBODY_SERVES
        assert client.ask("init 0") == NOBODY_SERVES
    assert not any(line == "cuInit = 0" for line in box.cuda.log())


def test_a_stream_socket_serves_too(box: Box, tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    box.write_limits(gpu_line(box.cuda.cards[0], 512 * MIB), f"mps {tmp_path / 'm'}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(tmp_path / "m" / "control"))
        listening.listen()
        with box.client() as client:
            client.do("begin 0")


@pytest.mark.parametrize(
    ("visible", "limit"),
    [
        (None, "0=200M,1=200M"),  # the driver's order is not known before it begins: each gets the larger, the ledger holds each to its own
        ("1", "0=200M"), (BLUE.uuid, "0=200M"), (RED.uuid, "0=100M"), (f"{BLUE.uuid},{RED.uuid}", "0=200M,1=100M"), (f"{RED.uuid[:14]}", "0=100M"),
        ("1,0", "0=200M,1=200M"), ("0, 1", "0=200M,1=200M"), ("1,7,0", "0=200M"), (f"{RED.uuid},GPU-ffffffff", "0=100M"),
    ],
)  # fmt: skip
def test_a_limit_names_visible_devices_alone(tmp_path: Path, served: Path, visible: str | None, limit: str) -> None:
    """One that named another would drop all of them."""
    box = Box(tmp_path, cards=(RED, BLUE))
    box.write_limits(gpu_line(RED, 100 * MIB), gpu_line(BLUE, 200 * MIB, sm_percent=40), f"mps {served}")
    with box.client(**({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible})) as client:
        client.do("begin 0")
    assert environment(box)["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == limit
    assert environment(box)["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "40"


@pytest.mark.parametrize("visible", ["", "-1", "9", "GPU-ffffffff"])
def test_where_nothing_is_visible_no_limit_is_named(box: Box, served: Path, visible: str) -> None:
    box.write_limits(gpu_line(box.cuda.cards[0], 512 * MIB), f"mps {served}")
    with box.client(CUDA_VISIBLE_DEVICES=visible, CUDA_MPS_PINNED_DEVICE_MEM_LIMIT="0=90G") as client:
        assert client.ask("begin 0") == "100"  # no device
    assert "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT" not in environment(box)


def test_devices_that_the_limits_do_not_name_close_everything(tmp_path: Path, served: Path) -> None:
    """The driver sees more than we named, so MPS may hold nobody: better nothing than the whole GPU."""
    box = Box(tmp_path, cards=(RED, BLUE))
    box.write_limits(gpu_line(RED, 100 * MIB), f"mps {served}")
    with box.client() as client:
        assert client.ask("init 0") == NOBODY_SERVES
        assert client.ask(f"take create {2 * MIB}") == "2"
