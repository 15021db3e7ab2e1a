"""Which container of which pod holds which GPU, as the kubelet tells on its pod-resources socket to whoever may open it.

The names and namespaces of pods are there, but not their uids; no right at the API server is needed.
"""
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpufairy.core.errors import EngineSilent
from gpufairy.node.grpc_call import call
from gpufairy.node.proc_text import printable

SOCKET = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
LIST = "/v1.PodResourcesLister/List"
MOST_BYTES = 2 * 2**20  # five hundred pods with dozens of devices each
LONGEST_NAME, LONGEST_DEVICE = 253, 128
DEVICE = re.compile(r"((?:GPU|MIG)-[0-9A-Za-z/-]{1,120})(?:::[0-9]{1,6})?")  # GPU-…::3: one of several shares of it
VARINT, EIGHT_BYTES, COUNTED, FOUR_BYTES = 0, 1, 2, 5  # kinds of fields of protobuf


@dataclass(frozen=True, slots=True)
class Holder:
    pod: str
    namespace: str
    container: str


Holders = Mapping[str, frozenset[Holder]]  # by the UUID of the GPU or MIG instance


def listed_holders(path: Path) -> Holders:
    """Raises EngineSilent."""
    text = call(str(path), LIST, MOST_BYTES)
    try:
        return read_holders(text)
    except ValueError as error:
        raise EngineSilent(f"{path} gave an answer that is no list of pods: {error}.") from error


def read_holders(text: bytes) -> Holders:
    """ListPodResourcesResponse of k8s.io/kubelet/pkg/apis/podresources/v1. Raises ValueError."""
    found: dict[str, set[Holder]] = {}
    for pod in counted_fields(text, 1):
        name, namespace = (_text(pod, number, LONGEST_NAME) for number in (1, 2))
        for container in counted_fields(pod, 3):
            holder = Holder(name, namespace, _text(container, 1, LONGEST_NAME))
            for device in _devices(container):
                found.setdefault(device, set()).add(holder)
    return {device: frozenset(holders) for device, holders in found.items()}


def _devices(container: bytes) -> Iterator[str]:
    for group in counted_fields(container, 2):
        for told in counted_fields(group, 2):
            name = DEVICE.fullmatch(told.decode("utf-8", "replace")) if len(told) <= LONGEST_DEVICE else None
            if name is not None:
                yield name[1]


def _text(message: bytes, number: int, most: int) -> str:
    """Of a field that is there several times the last counts, as everywhere in protobuf."""
    return printable([b"", *counted_fields(message, number)][-1], most)


def counted_fields(message: bytes, wanted: int) -> Iterator[bytes]:
    """The contents of all fields of that number that have a length; others are passed over. Raises ValueError."""
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        number, kind = tag >> 3, tag & 7
        length, place = _length(message, place, kind)
        if place + length > len(message):
            raise ValueError(f"a field of {length} bytes in a message of {len(message)}")
        if number == wanted and kind == COUNTED:
            yield message[place : place + length]
        place += length


def _length(message: bytes, place: int, kind: int) -> tuple[int, int]:
    """Of a field's content, and where that begins."""
    if kind == COUNTED:
        return _varint(message, place)
    if kind == VARINT:
        return _varint(message, place)[1] - place, place
    if kind in (EIGHT_BYTES, FOUR_BYTES):
        return (8 if kind == EIGHT_BYTES else 4), place
    raise ValueError(f"a field of the unknown kind {kind}")


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """The number, and where the next field begins."""
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(message):
            raise ValueError("it ends within a number")
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
    raise ValueError("a number of more than ten bytes")
