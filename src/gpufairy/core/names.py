"""Names that people give: of sessions and users. Few characters, so that they are safe in paths, URLs, labels and host names."""
import difflib
import re
from collections.abc import Callable, Iterable

from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput

SESSION_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
USER_NAME = re.compile(r"[a-z][a-z0-9_-]{0,30}")
NODE_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?")
# Beginnings of variables that sessions may not set. What we tell sessions, and what grants GPUs; LD_PRELOAD and its kin would run inside
# our own first process of a session, and the last two are read by a /bin/sh that is bash: `noexec` would run nothing at all.
RESERVED_ENV = ("FAIRY_", "CUDA_VISIBLE_DEVICES", "CUDA_MPS_", "NVIDIA_", "LD_", "SHELLOPTS", "BASHOPTS")
LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._/:@+-]{0,254}")  # images, pools, teams, GPU kinds, token labels
LONGEST_KEY = 200  # characters, of an Idempotency-Key: a UUID has 36


def session_name(text: str, what: str = "name") -> str:
    if not SESSION_NAME.fullmatch(text):
        raise BadInput(
            f"{what}: {shown(text)} is no session name", "Use up to 40 of a-z, 0-9 and -, beginning and ending with a letter or figure."
        )
    return text


def user_name(text: str, what: str = "user") -> str:
    if not USER_NAME.fullmatch(text):
        raise BadInput(f"{what}: {shown(text)} is no user name", "Use up to 31 of a-z, 0-9, _ and -, beginning with a letter.")
    return text


def node_name(text: str, what: str = "node") -> str:
    if not NODE_NAME.fullmatch(text) or ".." in text:
        raise BadInput(
            f"{what}: {shown(text)} is no name of a host", "Use up to 63 of a-z, 0-9, . and -, first and last a letter or figure."
        )
    return text


def idempotency_key(text: str) -> str:
    if not 1 <= len(text) <= LONGEST_KEY or not text.isprintable():
        raise BadInput(f"Idempotency-Key: not 1 to {LONGEST_KEY} printable characters", "Send a random one, such as a UUID.")
    return text


def label(text: str, what: str) -> str:
    if not LABEL.fullmatch(text):
        raise BadInput(f"{what}: {shown(text)} cannot be used", "Use letters, figures and . _ / : @ + -, up to 255.")
    return text


def nearest(word: str, known: Iterable[str]) -> str:
    """` (did you mean memory?)`, or nothing where no known word is near."""
    near = difflib.get_close_matches(word[:60].lower(), list(known), n=1, cutoff=0.6)
    return f" (did you mean {near[0]}?)" if near else ""


ADJECTIVES = (
    "able amber apt bold brave brisk calm clear clever cosy crisp eager early fair fast fine fond free fresh gentle glad "
    "golden grand green happy honest jolly keen kind light lively lucky mellow merry mild neat nimble noble patient plain "
    "proud quick quiet rapid ready rosy royal shy silent silver smart snowy soft solid sunny swift tidy true warm wise witty "
    "young"
).split()
ANIMALS = (
    "ant badger bear beaver bee bison crane crow deer dove duck eagle elk falcon ferret finch fox frog gecko goose hare hawk "
    "hedgehog heron horse ibis jay koala lark lemur lion lizard lynx magpie marten mole moose newt otter owl panda penguin "
    "pigeon pony puffin quail rabbit raven robin salmon seal shrew sparrow squid stork swan tapir tiger toad trout turtle "
    "vole weasel whale wolf wren yak zebra"
).split()


def made_up(chance: int, taken: Callable[[str], bool]) -> str:
    """`brave-otter`; with a figure behind it when that is taken."""
    name = f"{ADJECTIVES[chance % len(ADJECTIVES)]}-{ANIMALS[chance // len(ADJECTIVES) % len(ANIMALS)]}"
    number, tried = 2, name
    while taken(tried):
        tried, number = f"{name}-{number}", number + 1
    return tried
