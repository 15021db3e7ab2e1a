"""What leaves the house: nothing that is secret or looks so, no names; and what helps stays readable."""
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufairy.core.mask import MASKED, Mask

PLAIN = Mask()


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("token fairy_abc123.DEF-456 was refused", "abc123"),
        ("Authorization: Bearer eyJhbGciOi.x.y", "eyJhbGciOi"),
        ("authorization: Basic aGk6aG8=", "aGk6aG8"),
        ('{"password": "hunter2 with blanks"}', "hunter2"),
        ("smtp_password=hunter2", "hunter2"),
        ("api_key: k-123", "k-123"),
        ("client_secret = 'x y z'", "x y z"),
        ("posted to https://hooks.slack.example/services/T0/B0/XyZ", "XyZ"),
        ("store postgresql://fairy:pa55@db/fairy", "pa55"),
        ("http://host/signin?code=abcdef", "abcdef"),
        ("told kim.lee@lab.example", "kim.lee"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNz\nabc\n-----END OPENSSH PRIVATE KEY-----", "b3BlbnNz"),
        ("-----BEGIN PRIVATE KEY-----\ncut off", "cut off"),
        ("ssh-ed25519 AAAAC3NzaC1lZDI1 kim@laptop", "AAAAC3"),
        ("cookie 0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef"),
    ],
)
def test_what_looks_like_a_secret_is_gone(text, secret):
    assert secret not in PLAIN.text(text)
    assert MASKED in PLAIN.text(text) or "…" in PLAIN.text(text)


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-16 12:00:00,123 gpufairy.loop WARNING loop place: database /var/lib/gpufairy/fairy.db is locked by another program; again in 0.2 s",
        "GPU-5c1a2b3c-0000-1111-2222-333344445555 has 80 GiB",
        '{"token": null, "tokens": 3, "secrets": true}',
        "http://gpu01:8420",
        "no answer from the server at http://127.0.0.1:8420 in 30 s",
        "before-upgrade-0.1.0-20261116T023000Z.tar.gz",
        "test_a_name_of_letters_alone_is_no_secret_however_long",
    ],
)
def test_what_helps_stays(text):
    assert PLAIN.text(text) == text


def test_known_secrets_go_wherever_they_stand_the_longest_first():
    mask = Mask(("opensesame", "opensesame2", "line one\nline two of it"))
    assert mask.text("xopensesame2y and line two of it") == f"x{MASKED}y and {MASKED}"


def test_people_are_numbered_as_whole_words():
    mask = Mask((), {"kim": "user-1", "kim-lee": "user-2", "a.b": "user-3"})
    assert mask.text("kim, kim-lee, kimchi, /home/kim/x, a.b, aXb") == "user-1, user-2, kimchi, /home/user-1/x, user-3, aXb"


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_categories=("Cs", "Cc", "Z")), min_size=8, max_size=40), st.text(max_size=50), st.text(max_size=50))
def test_no_known_secret_survives_whatever_stands_around_it(secret, before, after):
    secret = secret.strip()
    if len(secret) >= 5 and secret not in MASKED:
        assert secret not in Mask((secret,)).text(before + secret + after)


@pytest.mark.slow
def test_a_long_log_is_masked_in_little_time():
    line = "2026-11-16 gpufairy.door INFO ann asked for http://x/y with token=abc and " + "a" * 200 + "=" * 50 + "\n"
    assert len(PLAIN.text(line * 5000)) > 1000
