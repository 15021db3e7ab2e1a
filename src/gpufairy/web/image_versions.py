"""Images as people choose among them: by repository, the versions of each side by side."""
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from gpufairy.control.gallery import Offer
from gpufairy.core.image import ImageRules, ImageState
from gpufairy.web.gauges import size_words
from gpufairy.web.speech import _
from gpufairy.web.times import length
from gpufairy.web.words import UNBROKEN, Mark


@dataclass(frozen=True, slots=True)
class Version:
    name: str  # repository:tag
    tag: str
    size: str
    cuda: str
    age: str
    used: str  # how long ago; empty: never, as far as anybody knows
    mark: Mark
    refusal: str  # why it is not for whoever looks; empty: it is
    made_by: str
    made_from: str
    made_in: str
    packages: tuple[str, ...]
    waits: bool  # for an admin to decide
    own: bool  # made by whoever looks
    root: bool  # in it one is root


@dataclass(frozen=True, slots=True)
class Repository:
    name: str
    versions: tuple[Version, ...]


def repositories(offers: Iterable[Offer], rules: ImageRules, user: str, now: datetime) -> tuple[Repository, ...]:
    found: dict[str, list[Version]] = {}
    for offer in offers:
        found.setdefault(repository_of(offer.image.name)[0], []).append(version(offer, rules, user, now))
    return tuple(Repository(name, tuple(versions)) for name, versions in found.items())


def repository_of(name: str) -> tuple[str, str]:
    """Repository and tag: a colon before the last slash is a port's."""
    repository, _colon, tag = name.rpartition(":")
    return (repository, tag) if repository and "/" not in tag else (name, "latest")


def version(offer: Offer, rules: ImageRules, user: str, now: datetime) -> Version:
    image, made = offer.image, offer.made
    return Version(
        name=image.name,
        tag=repository_of(image.name)[1],
        size=size_words(image.size_bytes),
        cuda="" if image.cuda is None else f"CUDA{UNBROKEN}{image.cuda}",
        age="" if image.created_at is None else length(now - image.created_at),
        used="" if offer.used_at is None else length(now - offer.used_at),
        mark=mark_of_offer(offer, rules),
        refusal=offer.refusal or "",
        made_by="" if made is None else made.owner,
        made_from="" if made is None else made.made_from,
        made_in="" if made is None else made.session_name,
        packages=() if made is None else made.packages,
        waits=made is not None and made.state is ImageState.WAITING,
        own=made is not None and made.owner == user,
        root=rules.root_inside(image.name),
    )


def mark_of_offer(offer: Offer, rules: ImageRules) -> Mark:
    if offer.made is not None and offer.made.state is ImageState.WAITING:
        return Mark(_("Waits for an admin"), "wait")
    if offer.made is not None and offer.made.state is ImageState.REFUSED:
        return Mark(_("Turned down"), "bad")
    if offer.refusal is not None:
        return Mark(_("Not for you"), "end")
    return Mark(_("Default"), "run") if offer.image.name == rules.default else Mark(_("Ready"), "run")
