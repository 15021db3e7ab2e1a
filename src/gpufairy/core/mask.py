"""Mask: takes secrets and people's names out of a text that leaves the house. What is known to be secret goes wherever it stands; what only
looks like one goes too: a support bundle that says too little can be asked about, one that says too much cannot be taken back.
"""
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

MASKED = "[masked]"
SHORTEST_KNOWN = 5  # characters of a known secret: a shorter one would be found in every other word
PEM = re.compile(r"-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)", re.DOTALL)
# What follows a word for a secret, up to the end of its word or quotes.
NAMED = re.compile(
    r"(?i)\b((?:[a-z0-9_-]*(?:password|passwd|secret|token|api[_-]?key|cookie|credential)s?)|authorization)(\"?\s*[:=]\s*)"
    r"(\"[^\"\n]*\"|'[^'\n]*'|[^\s,;}\]]+)"
)
BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[!-~]+")
URL = re.compile(r"\b([a-z][a-z0-9+.-]{1,20}://)(?:[^\s/@\"'<>]*@)?([^\s/?#\"'<>]*)([/?#][^\s\"'<>]*)?")
ADDRESS = re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")
SSH_KEY = re.compile(r"\b(?:ssh-[a-z0-9-]+|ecdsa-[a-z0-9-]+|sk-[a-z0-9@.-]+) AAAA[A-Za-z0-9+/=]+[^\n\"]*")
FAIRY_TOKEN = re.compile(r"\bfairy_[A-Za-z0-9_.-]+")
LONG_WORD = re.compile(r"[A-Za-z0-9_+=-]{24,}")
HARMLESS = re.compile(r"(?:GPU|MIG)-[0-9a-f-]{36}|[0-9T:Z.+-]+|[A-Za-z_-]+|(?:fairy|before-upgrade)-[0-9A-Za-z.-]+Z")


@dataclass(frozen=True)
class Mask:
    secrets: Iterable[str] = ()  # known ones, whole
    names: Mapping[str, str] = field(default_factory=dict)  # of people, and what stands for each

    @cached_property
    def _known(self) -> list[str]:
        """The longest first: one may be the beginning of another."""
        lines = {line.strip() for secret in self.secrets for line in secret.splitlines()}
        return sorted((line for line in lines if len(line) >= SHORTEST_KNOWN), key=len, reverse=True)

    @cached_property
    def _people(self) -> re.Pattern[str] | None:
        words = sorted((name for name in self.names if name), key=len, reverse=True)
        return re.compile(rf"(?<![A-Za-z0-9_])(?:{'|'.join(map(re.escape, words))})(?![A-Za-z0-9_])") if words else None

    def text(self, text: str) -> str:
        for secret in self._known:
            if secret in text:
                text = text.replace(secret, MASKED)
        text = PEM.sub(MASKED, text)
        text = SSH_KEY.sub(MASKED, text)
        text = BEARER.sub(rf"\1 {MASKED}", text)
        text = URL.sub(without_path, text)
        text = NAMED.sub(without_value, text)
        text = ADDRESS.sub(MASKED, text)
        text = FAIRY_TOKEN.sub(MASKED, text)
        text = LONG_WORD.sub(without_long_word, text)
        people = self._people
        return text if people is None else people.sub(lambda found: self.names[found[0]], text)


def without_path(found: re.Match[str]) -> str:
    """Where it leads stays, what it says there goes: addresses of webhooks are secrets."""
    return f"{found[1]}{found[2]}{'/…' if found[3] and found[3] != '/' else ''}"


def without_value(found: re.Match[str]) -> str:
    quoted = found[3][:1] in "\"'"
    value = found[3].strip("\"'")
    if value in ("", "null", "true", "false", "none", "None", MASKED) or value.isdecimal():
        return found[0]
    return f'{found[1]}{found[2]}"{MASKED}"' if quoted else f"{found[1]}{found[2]}{MASKED}"


def without_long_word(found: re.Match[str]) -> str:
    return found[0] if HARMLESS.fullmatch(found[0]) else MASKED
