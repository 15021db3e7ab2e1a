"""What is known of an image: its user list, its shell and its variables; and the user list that a session of it is shown."""
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

ROOT_LINE = "root:x:0:0:root:/root:/bin/sh"
FALLBACK_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # as the daemon itself has it
TOOLS_SHELL = "/opt/fairy/bin/bash"
MOST_BYTES = 64 * 2**10  # of a user or group list: more is no honest one


@dataclass(frozen=True, slots=True)
class ImageFacts:
    passwd: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    shell: str = TOOLS_SHELL  # the image's bash, else ours, else its sh
    env: Mapping[str, str] = field(default_factory=dict)  # as the image sets it

    @property
    def path(self) -> str:
        return self.env.get("PATH") or FALLBACK_PATH


NO_FACTS = ImageFacts()


def passwd_text(facts: ImageFacts, user: str, uid: int) -> str:
    """The image's own lines, but for those with the user's name or number, and the user's line."""
    own = f"{user}:x:{uid}:{uid}:{user}:/home/{user}:{facts.shell}"
    return "".join(f"{line}\n" for line in (*others(facts.passwd or (ROOT_LINE,), user, uid, fields=7), own))


def group_text(facts: ImageFacts, user: str, gid: int) -> str:
    return "".join(f"{line}\n" for line in (*others(facts.group or ("root:x:0:",), user, gid, fields=4), f"{user}:x:{gid}:"))


def others(lines: Iterable[str], name: str, number: int, *, fields: int) -> list[str]:
    """Whole lines alone: an image may hold anything there."""
    kept = []
    for line in lines:
        parts = line.split(":")
        if len(parts) == fields and parts[0] != name and parts[2] != str(number):
            kept.append(line)
    return kept
