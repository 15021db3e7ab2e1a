"""Packets of ours against asyncssh's own cipher."""
import os

import pytest
from asyncssh.encryption import get_encryption

from gpufairy.gateway.fast_packets import sealer_for


def pair():
    key, counter = os.urandom(16), os.urandom(12)
    return (get_encryption(b"aes128-gcm@openssh.com", key, counter) for _ in range(2))


def opened(theirs, sealed: bytes) -> bytes:
    """What a client reads: the payload, with its kind."""
    head, body, mac = sealed[:4], sealed[4:-16], sealed[-16:]
    assert len(body) == int.from_bytes(head, "big")
    assert len(body) % 16 == 0
    packet = theirs.decrypt_packet(0, sealed[:16], sealed[16:-16], 4, mac)
    assert packet is not None
    assert packet[0] >= 4
    return packet[1 : -packet[0]]


@pytest.mark.parametrize("size", [0, 1, 3, 5, 6, 7, 15, 16, 17, 1000, 32768])
def test_what_is_sealed_is_opened_again_whatever_its_length(size):
    ours, theirs = pair()
    data = os.urandom(size)
    assert opened(theirs, sealer_for(ours).sealed(94, (b"chan", memoryview(data)))) == b"\x5e" + b"chan" + data


def test_both_ways_of_sealing_may_be_used_in_turn():
    ours, theirs = pair()
    sealer = sealer_for(ours)
    assert opened(theirs, sealer.sealed(94, (b"one",))) == b"\x5eone"
    packet, mac = ours.encrypt_packet(0, (16).to_bytes(4, "big"), b"\x0c\x5etwo" + bytes(11))
    assert theirs.decrypt_packet(0, packet[:16], packet[16:], 4, mac)[1:5] == b"\x5etwo"
    assert opened(theirs, sealer.sealed(94, (b"three",))) == b"\x5ethree"


def test_other_ciphers_are_left_to_asyncssh():
    assert sealer_for(None) is None
    assert sealer_for(get_encryption(b"aes128-ctr", bytes(16), bytes(16), b"hmac-sha2-256", bytes(32), False)) is None
