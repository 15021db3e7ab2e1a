"""The GPUs of a node of which a device plugin tells the number alone: whole ones, MIG instances, and parts as HAMi or replicas have them.

Which GPU is which is not known, so each is named by its place (`kube:NODE/gpu/0`). Who else holds some of them is counted, not named.
"""
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from gpufairy.core.errors import BadInput
from gpufairy.core.mig import MigInstance, MigTable
from gpufairy.core.mig_layout import lay_out
from gpufairy.core.node import Gpu, Sharing
from gpufairy.engines.kube_quantity import whole
from gpufairy.engines.pod_gpus import SINGLE, counted_uuid
from gpufairy.engines.pod_settings import FractionsBy, GpuNames

# What NVIDIA's feature discovery says of a node's GPUs.
PRODUCT, MEMORY_MIB = "nvidia.com/gpu.product", "nvidia.com/gpu.memory"
HAMI_REGISTER = "hami.io/node-nvidia-register"  # HAMi's own list of a node's GPUs: its extended resource counts each of them several times
MIB = 2**20
MOST_OF_A_NODE = 256  # GPUs: a larger number is a mistake of somebody's
WHOLE_ALONE = (
    "its device plugin gives out whole GPUs alone; for parts install gpufairy's agents with DRA (Helm value agents.dra), or name HAMi's or "
    "the MPS replicas' resources in [kubernetes]"
)
PARTS_ALONE = "its device plugin gives out parts of GPUs alone"


def plain_kind(product: str, memory_mib: int) -> str:
    return product.removeprefix("NVIDIA-") or "GPU"


@dataclass(frozen=True, slots=True)
class KindsKnown:
    """What is known of kinds of GPU, whoever has them."""

    kind_of: Callable[[str, int], str] = plain_kind  # of a product's name and its MiB
    mig: Mapping[str, MigTable] = field(default_factory=dict)  # by kind, how it may be cut


@dataclass(frozen=True, slots=True)
class Told:
    """What a node says of its GPUs."""

    node: str
    labels: Mapping[str, str]
    resources: Mapping[str, int]
    hami: str = ""


@dataclass(frozen=True, slots=True)
class Product:
    kind: str
    memory_bytes: int
    cut: str = ""  # the MIG profile, where each `nvidia.com/gpu` of the node is an instance of it


def counted_gpus(told: Told, names: GpuNames, kinds: KindsKnown) -> tuple[Gpu, ...]:
    product = product_of(told.labels, kinds)
    if product.cut:
        return cut_gpus(told, product, {product.cut: told.resources.get(names.whole, 0)}, kinds, SINGLE)
    plain = plain_gpus(told, product, names)
    cut = {profile_of(name, names.mig): amount for name, amount in told.resources.items() if amount and profile_of(name, names.mig)}
    return (*plain, *cut_gpus(told, product, cut, kinds, "mig", first=len(plain))) if cut else plain


def plain_gpus(told: Told, product: Product, names: GpuNames) -> tuple[Gpu, ...]:
    count, closed, stays, sharing = told.resources.get(names.whole, 0), WHOLE_ALONE, "", Sharing.MPS
    if names.fractions is FractionsBy.HAMI:
        count, closed = hami_count(told.hami) or whole(told.labels.get("nvidia.com/gpu.count", 0)) or count, ""
    elif names.fractions is FractionsBy.REPLICAS and (of_parts := told.resources.get(names.replica, 0)):
        count, closed, stays = of_parts // names.replicas, "", PARTS_ALONE
    return tuple(
        Gpu(
            place, counted_uuid(told.node, "gpu", place), product.kind, product.memory_bytes, sharing=sharing, closed=closed,
            mps_stays=stays,
        )
        for place in range(min(count, MOST_OF_A_NODE))
    )  # fmt: skip


def product_of(labels: Mapping[str, str], kinds: KindsKnown) -> Product:
    name, _, cut = labels.get(PRODUCT, "").partition("-MIG-")
    in_name = re.search(r"(\d+)GB\b", name)
    memory_mib = 0 if cut else whole(labels.get(MEMORY_MIB, 0))
    memory_mib = memory_mib or (int(in_name[1]) * 1024 if in_name else 0)
    return Product(kinds.kind_of(name, memory_mib) if name else "GPU", memory_mib * MIB, cut.replace(".me", "+me"))


def profile_of(resource: str, names: str) -> str:
    """Of `nvidia.com/mig-1g.5gb.me` 1g.5gb+me; empty: it is no MIG instance."""
    before, _, after = names.partition("{profile}")
    if not resource.startswith(before) or not resource.endswith(after):
        return ""
    found = resource.removeprefix(before).removesuffix(after)
    return re.sub(r"\.me$", "+me", found) if re.fullmatch(r"\d+g\.\d+gb(\.me)?", found) else ""


def cut_gpus(told: Told, product: Product, cut: Mapping[str, int], kinds: KindsKnown, what: str, *, first: int = 0) -> tuple[Gpu, ...]:
    """As many GPUs as these instances need: where each really lies nobody tells."""
    table = kinds.mig.get(product.kind)
    if table is None:
        return ()
    made = []
    for place, layout in enumerate(packed(product.kind, tuple(sorted(cut.items())), table)):
        uuid = counted_uuid(told.node, what, place)
        instances = tuple(MigInstance(name, start, size, f"{uuid}/{number}") for number, (name, start, size) in enumerate(layout))
        made.append(Gpu(first + place, uuid, product.kind, product.memory_bytes, mig=table, instances=instances, sharing=Sharing.MIG))
    return tuple(made)


def unknown_cut(told: Told, names: GpuNames, kinds: KindsKnown) -> str:
    """Why instances of a node are given to nobody, in words; empty: there are none, or they are."""
    product = product_of(told.labels, kinds)
    cut = [product.cut] if product.cut else [found for name in told.resources if (found := profile_of(name, names.mig))]
    if not cut or product.kind in kinds.mig:
        return ""
    label = f"the label {PRODUCT} says {told.labels.get(PRODUCT)!r}" if PRODUCT in told.labels else f"it has no label {PRODUCT}"
    return f"it has MIG instances ({', '.join(sorted(cut))}) of a kind of GPU that is not known here: {label}"


@lru_cache(maxsize=1024)
def packed(kind: str, cut: tuple[tuple[str, int], ...], table: MigTable) -> tuple[tuple[tuple[str, int, int], ...], ...]:
    """Of each GPU its instances, with start and size: the largest first, each on the first GPU that has room."""
    known = [(name, amount) for name, amount in cut if table.profile(name) is not None]
    wanted = sorted(known, key=lambda one: -(table.profile(one[0]) or table.profiles[0]).size)
    gpus: list[list[str]] = []
    for name, amount in wanted:
        for _ in range(min(amount, 8 * MOST_OF_A_NODE)):
            on = next((gpu for gpu in gpus if fits(table, kind, [*gpu, name])), None)
            if on is None:
                gpus.append([name])
            else:
                on.append(name)
    return tuple(tuple((profile.name, start, profile.size) for profile, start in lay_out(table, kind, gpu)) for gpu in gpus)


def fits(table: MigTable, kind: str, names: list[str]) -> bool:
    profiles = [profile for name in names if (profile := table.profile(name)) is not None]
    if sum(profile.compute_slices for profile in profiles) > table.compute_slices:  # sooner seen than by trying all places
        return False
    try:
        lay_out(table, kind, names)
    except BadInput:
        return False
    return True


def hami_count(register: str) -> int:
    """By HAMi's annotation: JSON since 2.5, before that one GPU after the other, each ended by a colon."""
    try:
        told = json.loads(register)
    except (ValueError, RecursionError):
        return sum(one.count(",") >= 6 for one in register.split(":"))
    return sum(isinstance(one, dict) and one.get("health") is not False for one in told) if isinstance(told, list) else 0


def of_others(used: Mapping[str, int], names: GpuNames) -> tuple[tuple[str, int], ...]:
    """What others hold: GPUs under no name, MIG instances under their profiles'. Of parts as many GPUs as they are on at the least."""
    gpus = used.get(names.whole, 0)
    if names.fractions is FractionsBy.HAMI and used.get(names.cores):
        gpus = min(gpus, -(-used[names.cores] // 100))
    elif names.fractions is FractionsBy.REPLICAS:
        gpus = -(-used.get(names.replica, 0) // names.replicas)
    cut = {profile_of(name, names.mig): amount for name, amount in used.items()}
    return tuple(sorted((name, amount) for name, amount in {**cut, "": gpus}.items() if amount))
