"""Where connections come from: whom a limit of one address counts together, and whom it leaves alone."""
import pytest

from gpufairy.core.errors import BadInput
from gpufairy.core.source import Trusted, parse_trusted, source_of


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10.0.0.1", "10.0.0.1", True), ("10.0.0.1", "10.0.0.2", False), ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("2001:db8::1", "2001:db8::2", True), ("2001:db8::1", "2001:db8:0:1::1", False), ("fe80::1%eth0", "fe80::2", True),
        ("", "nowhere", False),
    ],
)  # fmt: skip
def test_one_household_is_one_source(one, other, same):
    assert (source_of(one) == source_of(other)) is same


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "::ffff:127.0.0.1"])
def test_this_machine_is_always_trusted(host):
    assert Trusted().has(host)


def test_named_addresses_and_networks_are_trusted_and_others_are_not():
    trusted = parse_trusted(["10.0.0.7", "192.168.0.0/16", "2001:db8::/32"], "limits.trusted")
    assert all(trusted.has(host) for host in ("10.0.0.7", "192.168.3.4", "::ffff:10.0.0.7", "2001:db8:1::1"))
    assert not any(trusted.has(host) for host in ("10.0.0.8", "193.0.0.1", "2001:db9::1", "", "proxy"))


@pytest.mark.parametrize("text", ["", "proxy", "10.0.0.1/99", "10.0.0.1/8", "1" * 200])
def test_what_is_no_network_is_refused_in_words(text):
    with pytest.raises(BadInput, match=r"limits\.trusted: .* is neither an address nor a network") as refused:
        parse_trusted([text], "limits.trusted")
    assert len(str(refused.value)) < 200
