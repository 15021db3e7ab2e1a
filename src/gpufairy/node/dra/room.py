"""Whether a grant fits beside those that are held. Pure: the rule that no GPU is ever granted beyond what it has."""
from collections.abc import Iterable, Mapping

from gpufairy.core.amounts import show_size
from gpufairy.node.dra.values import ALL_CORES, Grant, Offer


def lacking(wanted: Grant, held: Iterable[Grant], offers: Mapping[str, Offer]) -> str:
    """Why not now, in words; empty: it fits. `held`: of others, those that are going included."""
    others = [grant for grant in held if grant.claim.uid != wanted.claim.uid]
    for device in dict.fromkeys(part.device for part in wanted.parts):
        offer = offers.get(device)
        if offer is None:
            return f"{device} is not there now: its driver does not tell of it"
        if why := lacking_on(offer, wanted, others):
            return why
    return ""


def lacking_on(offer: Offer, wanted: Grant, others: list[Grant]) -> str:
    here = [grant for grant in others if any(part.device == offer.name for part in grant.parts)]
    names = ", ".join(f"{grant.claim.namespace}/{grant.claim.name}" for grant in here)
    if offer.is_instance:
        return f"{offer.uuid} is still held by {names}" if here else ""
    amounts = [grant.of(offer.name) for grant in (*here, wanted)]
    memory, cores = sum(one[0] for one in amounts), sum(one[1] for one in amounts)
    if memory > offer.memory_bytes:
        return f"{offer.uuid} has {show_size(offer.memory_bytes)}, and {show_size(memory)} would be held: by {names or 'this claim alone'}"
    if cores > ALL_CORES:
        return f"{cores} % of {offer.uuid} would be held: by {names or 'this claim alone'}"
    return ""


def is_whole(grant: Grant, offer: Offer) -> bool:
    """Nobody else can have any of it, so there is nothing to hold it to."""
    memory, cores = grant.of(offer.name)
    return offer.is_instance or (memory >= offer.memory_bytes and cores >= ALL_CORES)


def second_claim_of_a_pod(wanted: Grant, held: Iterable[Grant]) -> Grant | None:
    """Another claim that one of its pods has: a container would find the limits of one of them alone."""
    others = (grant for grant in held if grant.claim.uid != wanted.claim.uid)
    return next((grant for grant in others if set(grant.pods) & set(wanted.pods)), None)
