"""Images: what sessions start from, who may use which, and whether one can work with the driver of a machine."""
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase

from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput
from gpufairy.core.people import User

# As registries take them, without the characters that would mean something to a shell, a path or a label.
IMAGE_NAME = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,120}[A-Za-z0-9])?(?::[0-9]{1,5})?/)?"  # a registry's host
    r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)
LONGEST_NAME = 255
HOW_TO_WRITE = "Write it as registries do: name, name:tag or host/name:tag."
_USUAL_REGISTRY = re.compile(r"^(?:(?:(?:index\.|registry-1\.)?docker\.io|registry\.hub\.docker\.com)/)?(?:library/)?", re.IGNORECASE)


class ImageState(StrEnum):
    """Of an image made here from a session."""

    WAITING = "waiting"  # for an admin to say yes; its maker may use it meanwhile
    APPROVED = "approved"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Image:
    """One that lies on a machine."""

    name: str  # repository:tag
    id: str
    size_bytes: int
    created_at: datetime | None = None
    cuda: str | None = None  # the CUDA version it was built for; None: it does not say


@dataclass(frozen=True, slots=True)
class MadeImage:
    """An image made here from a session: where it comes from, and what was put into it."""

    name: str
    image_id: str  # empty: it is being made, or the server ended while it was
    owner: str
    made_from: str
    session_id: str
    session_name: str
    size_bytes: int
    made_at: datetime
    state: ImageState = ImageState.WAITING
    packages: tuple[str, ...] = ()  # the difference to `made_from`: "+ pip numpy 2.1", "- apt vim 9.0"
    decided_by: str | None = None


@dataclass(frozen=True, slots=True)
class ImageRules:
    """Set by the admin. Patterns as a shell has them."""

    default: str
    allow: tuple[str, ...] = ("*",)
    root: tuple[str, ...] = ()  # in these the user is root, inside the container
    pull: bool = True  # an image that is not on the machine is fetched
    commit: str = "approve"  # "approve": an admin decides who else may use an image made here; "free": all may; "off": none is made
    commit_quota_bytes: int = 50 * 2**30  # of images that one user has made
    allow_for: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # beside `allow`, for a user or, as team:NAME, a team

    def root_inside(self, image: str) -> bool:
        return any(fnmatchcase(image, pattern) for pattern in self.root)

    def refusal(self, image: str, user: User, is_admin: bool, made: MadeImage | None) -> str | None:
        """Why this user may not use it; None: they may."""
        if is_ours(image):
            return f"image {image} is kept for a session to go back to, and for nobody else"
        if made is not None:
            return made_refusal(made, user.name, is_admin)
        allowed = (*self.allow, *self.allow_for.get(user.name, ()), *self.allow_for.get(f"team:{user.team}", ()))
        if is_admin or any(fnmatchcase(image, pattern) for pattern in allowed):
            return None
        return f"image {image} is not one of those offered to {user.name} ({', '.join(allowed[:10]) or 'none'})"


def made_refusal(made: MadeImage, user: str, is_admin: bool) -> str | None:
    if made.state is ImageState.REFUSED and not is_admin:
        return f"image {made.name} was turned down by {made.decided_by}"
    if made.state is ImageState.WAITING and user != made.owner and not is_admin:
        return f"image {made.name}, made by {made.owner}, waits for an admin's approval"
    return None


def image_name(text: str, what: str = "image") -> str:
    """Whole, and the same for all ways of writing it: with the tag that is meant when none is written, without the usual registry.

    An image's id is no name: by it anybody could use what they may not.
    """
    if len(text) > LONGEST_NAME or not IMAGE_NAME.fullmatch(text):
        raise BadInput(f"{what}: {shown(text)} is no image name", HOW_TO_WRITE)
    short = _USUAL_REGISTRY.sub("", text, count=1)
    repository = short.partition("@")[0].rpartition(":")[0] or short
    if not IMAGE_NAME.fullmatch(short) or repository == "sha256":
        raise BadInput(f"{what}: {shown(text)} is no image name", HOW_TO_WRITE)
    return short if ":" in short.rpartition("/")[2] else f"{short}:latest"


def kept_name(session_id: str, attempt: int) -> str:
    """Of what a session was before a swap."""
    return f"gpufairy-kept/{session_id}:{attempt}"


def is_ours(name: str) -> bool:
    return name.startswith(("gpufairy-kept/", "gpufairy/"))


def own_prefix(user: str, uid: int) -> str:
    """What names of images that a user makes begin with. Not every user's name can be part of an image's."""
    return f"{user}/" if re.fullmatch(r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*", user) else f"u{uid}/"


def cuda_refusal(image: Image, driver_cuda: str | None) -> str | None:
    """Why the image cannot work with a driver that takes CUDA up to that version. Within a major version any driver will do."""
    needs, has = major(image.cuda), major(driver_cuda)
    if needs is None or has is None or needs <= has:
        return None
    return f"image {image.name} is built for CUDA {image.cuda}, and the driver takes up to {driver_cuda}"


def major(version: str | None) -> int | None:
    found = re.match(r"\d{1,3}", version or "")
    return int(found[0]) if found else None


def cuda_of(env: Mapping[str, str], labels: Mapping[str, str]) -> str | None:
    """As NVIDIA's images say it, and those built on them."""
    for text in (env.get("CUDA_VERSION"), labels.get("com.nvidia.cuda.version"), labels.get("org.opencontainers.image.cuda")):
        if text and re.match(r"\d", text):
            return text[:20]
    required = re.search(r"cuda>=(\d+\.\d+)", env.get("NVIDIA_REQUIRE_CUDA", ""))
    return required[1] if required else None


def package_difference(before: Iterable[str], after: Iterable[str]) -> tuple[str, ...]:
    """`+ pip numpy 2.1` for what came, `- apt vim 9.0` for what went; a new version is both."""
    old, new = set(before), set(after)
    return tuple(sorted([f"+ {name}" for name in new - old] + [f"- {name}" for name in old - new], key=lambda line: line[2:]))
