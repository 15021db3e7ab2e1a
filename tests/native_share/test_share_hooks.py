"""Every kind of memory, by every way in which a program finds the driver's functions: granted up to the share, refused beyond, given back."""
import pytest
from share_scene import CONTEXT_BYTES, MIB, Box

pytestmark = pytest.mark.slow  # each is quick; all of them are not

WAYS = ("linked", "dlsym", "default", "dlvsym", "address11", "address12", "ptsz", "address12-ptsz")
KINDS = ("plain", "pitch", "managed", "async", "pool", "create", "mapped", "held", "array", "array3d", "mipmap", "node", "addnode", "captured", "heap")
PIECE = 64 * MIB
OUT_OF_MEMORY = 2


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_granted_up_to_the_share_and_refused_beyond(box: Box, kind: str, way: str) -> None:
    if kind == "heap":
        box.write_limits(f"gpu {box.cuda.cards[0].uuid} memory_bytes={PIECE} context_bytes={CONTEXT_BYTES}")
    with box.client(way) as client:
        client.do("begin 0")
        granted, code = map(int, client.ask(f"fill {kind} {PIECE}").split())
        free, total = client.info()
        # 1024 MiB less the context is room for 15 of 64 MiB; a heap is one, and there is room for none.
        assert (granted, code) == (0 if kind == "heap" else 15, OUT_OF_MEMORY)
        assert free == total - CONTEXT_BYTES - granted * PIECE
        assert box.cuda.peak() <= total
        client.do("give_all")
        assert client.info() == (total - CONTEXT_BYTES, total)
        assert client.ask(f"take plain {PIECE // 2}") == "0"  # it goes on
    assert box.cuda.now() == 0
