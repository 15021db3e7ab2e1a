"""Which nodes are alike to a placer: those that the same shapes may use, with hosts of a like size."""
from collections.abc import Sequence
from dataclasses import dataclass

from gpufairy.core.placement_mix import Shape
from gpufairy.core.placement_worth import RoomClass

LIKE = 4  # times: within a class the smallest node still has a quarter of the grains


@dataclass(frozen=True, slots=True)
class SortedOut:
    classes: list[RoomClass]
    of_node: list[int]


def classes_of(models: Sequence[str], hosts: Sequence[int], gpus: Sequence[int], shapes: frozenset[Shape], grains: int) -> SortedOut:
    most_host = max(hosts, default=1)
    may_use = {model: frozenset(shape for shape in shapes if shape.may_use(model)) for model in set(models)}
    keys = [(may_use[model], _grain(host, most_host, grains)) for model, host in zip(models, hosts, strict=True)]
    place = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    most_gpus = [0] * len(place)
    for key, count in zip(keys, gpus, strict=True):
        most_gpus[place[key]] = max(most_gpus[place[key]], count)
    classes = [RoomClass(allowed, grain, grains, most_gpus[number]) for (allowed, grain), number in place.items()]
    return SortedOut(classes, [place[key] for key in keys])


def _grain(host: int, most_host: int, grains: int) -> int:
    """Measured from the largest node down, so that no fixed size of machine is assumed."""
    ceiling = most_host
    while host * LIKE <= ceiling and ceiling > grains * LIKE:
        ceiling //= LIKE
    return max(1, -(-ceiling // grains))
