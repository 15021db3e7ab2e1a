"""A device plugin for the real kubelet, as a process: `device_plugin.py FOLDER RESOURCE ID…` offers these until it is told to end."""
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import grpc

ENDPOINT = "fairy-tests.sock"
VERSION = "v1beta1"


def counted(number: int, content: bytes) -> bytes:
    """A field of protobuf that has a length; all here are shorter than 128."""
    return bytes([number << 3 | 2, len(content)]) + content


def devices(ids: list[str]) -> bytes:
    return b"".join(long_counted(1, counted(1, one.encode()) + counted(2, b"Healthy")) for one in ids)


def long_counted(number: int, content: bytes) -> bytes:
    length = len(content)
    return bytes([number << 3 | 2, *([length] if length < 128 else [length & 0x7F | 0x80, length >> 7])]) + content


class Plugin(grpc.GenericRpcHandler):
    def __init__(self, ids: list[str], over: Event) -> None:
        self._ids, self._over = ids, over

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        method = details.method.rpartition("/")[2]
        if method == "ListAndWatch":
            return grpc.unary_stream_rpc_method_handler(self._list)
        # One empty answer for each container that is asked for: a list with one entry, since a pod's are asked for one by one.
        answers = {"GetDevicePluginOptions": b"", "Allocate": counted(1, b""), "PreStartContainer": b""}
        return grpc.unary_unary_rpc_method_handler(lambda question, context: answers[method]) if method in answers else None

    def _list(self, question: bytes, context: grpc.ServicerContext):
        yield devices(self._ids)
        self._over.wait()


def main(folder: Path, resource: str, ids: list[str]) -> None:
    over = Event()
    signal.signal(signal.SIGTERM, lambda number, frame: over.set())
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers([Plugin(ids, over)])
    server.add_insecure_port(f"unix://{folder / ENDPOINT}")
    server.start()
    with grpc.insecure_channel(f"unix://{folder / 'kubelet.sock'}") as channel:
        question = counted(1, VERSION.encode()) + counted(2, ENDPOINT.encode()) + counted(3, resource.encode())
        channel.unary_unary(f"/{VERSION}.Registration/Register")(question, timeout=10)
    over.wait()
    server.stop(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
