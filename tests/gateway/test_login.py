"""What people write before the @."""
import pytest

from gpufairy.gateway.login import Login, read_login


def test_a_name_alone_means_the_default_session():
    assert read_login(b"kim") == Login("kim", None)


def test_a_plus_names_a_session():
    assert read_login(b"kim+train-2") == Login("kim", "train-2")


@pytest.mark.parametrize(
    "sent",
    [
        b"", b"+", b"kim+", b"+train", b"kim++train", b"kim+train+2", b"kim ", b" kim", b"kim\n", b"kim\0", b"ki\0m", b"Kim", b"..", b"../kim",
        b"kim/..", b"kim+../x", b"kim+.", b"/", b"-kim", b"kim@host", b"kim;id", b"$(id)", b"kim\xff", "ｋim".encode(), "kіm".encode(),
        "kim\u200b".encode(), b"k" * 32, b"kim+" + b"a" * 41, b"a" * 65536,
    ],
)  # fmt: skip
def test_anything_else_is_nobody(sent):
    assert read_login(sent) is None
