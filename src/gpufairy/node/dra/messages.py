"""The few messages that a kubelet and a DRA driver exchange, in protobuf: k8s.io/kubelet pkg/apis/dra/v1 and pluginregistration/v1. Pure.

v1beta1 of the first has the same messages.
"""
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpufairy.node.dra.values import Asked
from gpufairy.node.pod_resources import counted_fields

COUNTED = 2  # kind of a field that has a length
LONGEST_NAME, LONGEST_ERROR = 253, 1000
MOST_CLAIMS = 256  # a pod has a few
UID = re.compile(r"[0-9A-Za-z-]{1,63}")  # it names folders and devices
NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A device of a claim, for the containers that ask for one of these requests."""

    requests: tuple[str, ...]
    pool: str
    device: str
    cdi: tuple[str, ...]  # full names


def asked_claims(message: bytes) -> list[Asked]:
    """NodePrepareResourcesRequest and NodeUnprepareResourcesRequest. Raises ValueError."""
    found = [Asked(text(claim, 1), text(claim, 3), text(claim, 2)) for claim in counted_fields(message, 1)]
    if len(found) > MOST_CLAIMS:
        raise ValueError(f"{len(found)} claims at once")
    for claim in found:
        if not UID.fullmatch(claim.uid) or not all(NAME.fullmatch(part) for part in (claim.namespace, claim.name)):
            raise ValueError(f"a claim with the names {claim.namespace[:60]!r}, {claim.name[:60]!r} and the uid {claim.uid[:60]!r}")
    return found


def text(message: bytes, number: int) -> str:
    found = [b"", *counted_fields(message, number)][-1]
    if len(found) > LONGEST_NAME:
        raise ValueError(f"a name of {len(found)} bytes")
    return found.decode()


def prepared_answer(claims: Mapping[str, Iterable[Prepared] | str]) -> bytes:
    """NodePrepareResourcesResponse: by uid the devices, or why not, in words."""
    return b"".join(entry(uid, error(2, told) if isinstance(told, str) else devices(told)) for uid, told in claims.items())


def unprepared_answer(claims: Mapping[str, str]) -> bytes:
    """NodeUnprepareResourcesResponse: every claim that was asked for, with why not, or nothing."""
    return b"".join(entry(uid, error(1, why)) for uid, why in claims.items())


def devices(prepared: Iterable[Prepared]) -> bytes:
    return b"".join(counted(1, device(one)) for one in prepared)


def device(one: Prepared) -> bytes:
    named = b"".join(counted(1, name.encode()) for name in one.requests)
    return named + counted(2, one.pool.encode()) + counted(3, one.device.encode()) + b"".join(counted(4, name.encode()) for name in one.cdi)


def entry(key: str, value: bytes) -> bytes:
    """Of a map, which is field 1 of both answers."""
    return counted(1, counted(1, key.encode()) + counted(2, value))


def error(number: int, words: str) -> bytes:
    return counted(number, words[:LONGEST_ERROR].encode()) if words else b""


def plugin_info(name: str, endpoint: str, versions: Iterable[str]) -> bytes:
    """PluginInfo."""
    told = counted(1, b"DRAPlugin") + counted(2, name.encode()) + counted(3, endpoint.encode())
    return told + b"".join(counted(4, version.encode()) for version in versions)


def registration_trouble(message: bytes) -> str:
    """RegistrationStatus: empty if the kubelet took us."""
    registered = message[:2] == b"\x08\x01"
    why = [b"", *counted_fields(message, 2)][-1].decode("utf-8", "replace")[:LONGEST_ERROR]
    return "" if registered else why or "it did not say why"


def counted(number: int, content: bytes) -> bytes:
    return varint(number << 3 | COUNTED) + varint(len(content)) + content


def varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])
