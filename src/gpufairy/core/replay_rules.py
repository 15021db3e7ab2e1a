"""Rules: by what a trace is replayed. `fair` is the product; the others are what people compare it with."""
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from gpufairy.core.amounts import parse_duration, shown
from gpufairy.core.cluster import Policy
from gpufairy.core.errors import BadInput
from gpufairy.core.names import nearest
from gpufairy.core.preempt import Preempt
from gpufairy.core.quota import Quota
from gpufairy.core.share import ShareKind, parse_share


@dataclass(frozen=True, slots=True)
class Rules:
    name: str  # as it was written
    policy: Policy = field(default_factory=Policy)
    turns: bool = True  # False: one line for all, by submission, whoever has had how much
    backfill: bool = True  # False: nobody passes the first who does not fit
    quotas: tuple[Quota, ...] = ()


KNOWN = {
    "fair": Rules("fair"),
    "fair-no-backfill": Rules("fair-no-backfill", backfill=False),
    "fifo": Rules("fifo", turns=False),
    "fifo-strict": Rules("fifo-strict", turns=False, backfill=False),
}
HOW_TO_WRITE = "Write one or several of {}; with settings: fair:half_life=1d,user_gpus=8.".format(", ".join(KNOWN))


def parse_rules(text: str, what: str = "--policy") -> list[Rules]:
    """`fair,fifo` is two; `fair:half_life=1d,entry_penalty=0,fifo` is two as well: a word with = belongs to what stands before it."""
    written: list[str] = []
    for word in text.replace(" ", "").split(","):
        name = word.partition(":")[0]
        if "=" in name and written:
            written[-1] += f"{',' if ':' in written[-1] else ':'}{word}"
        else:
            written.append(word)
    return [one_of(word, what) for word in dict.fromkeys(written)]


def one_of(text: str, what: str) -> Rules:
    name, _, settings = text.partition(":")
    if name not in KNOWN:
        raise BadInput(f"{what}: {shown(name)} is no policy{nearest(name, list(KNOWN))}", HOW_TO_WRITE)
    rules = replace(KNOWN[name], name=text)
    for setting in settings.split(",") if settings else []:
        key, _, value = setting.partition("=")
        if key not in SETTINGS:
            raise BadInput(f"{what}: {shown(key)} is no setting{nearest(key, list(SETTINGS))}", f"There are: {', '.join(SETTINGS)}.")
        rules = SETTINGS[key](rules, value, f"{what}: {key}")
    if rules.quotas and not rules.turns:
        raise BadInput(f"{what}: {text}: {name} knows no users, so it has no quotas of theirs", "Set them for fair.")
    return rules


def half_life(rules: Rules, value: str, what: str) -> Rules:
    return replace(rules, policy=replace(rules.policy, half_life=parse_duration(value, what)))


def entry_penalty(rules: Rules, value: str, what: str) -> Rules:
    penalty = timedelta() if value in ("0", "0s") else parse_duration(value, what)
    return replace(rules, policy=replace(rules.policy, entry_penalty=penalty))


def depth(rules: Rules, value: str, what: str) -> Rules:
    if not value.isdecimal() or not 1 <= int(value[:9]) <= 1_000_000:
        raise BadInput(f"{what}: {shown(value)} is no number of looks between 1 and a million", "Write a number such as 1000.")
    return replace(rules, policy=replace(rules.policy, depth=int(value)))


def preempt(rules: Rules, value: str, what: str) -> Rules:
    if value not in list(Preempt):
        raise BadInput(f"{what}: found {shown(value)}", f"Write one of {', '.join(Preempt)}.")
    return replace(rules, policy=replace(rules.policy, preempt=Preempt(value)))


def preempt_after(rules: Rules, value: str, what: str) -> Rules:
    return replace(rules, policy=replace(rules.policy, preempt_after=parse_duration(value, what)))


def user_gpus(rules: Rules, value: str, what: str) -> Rules:
    return replace(rules, quotas=(*rules.quotas, Quota("user:*", gpu_parts=parts_of(value, what))))


def team_gpus(rules: Rules, value: str, what: str) -> Rules:
    return replace(rules, quotas=(*rules.quotas, Quota("team:*", gpu_parts=parts_of(value, what))))


def parts_of(value: str, what: str) -> int:
    share = parse_share(value, what)
    if share.kind not in (ShareKind.WHOLE, ShareKind.FRACTION):
        raise BadInput(f"{what}: {shown(value)} is no number of GPUs", "Write how many may be held at once, such as 8.")
    return share.parts


SETTINGS: Mapping[str, Callable[[Rules, str, str], Rules]] = {
    one.__name__: one for one in (half_life, entry_penalty, depth, preempt, preempt_after, user_gpus, team_gpus)
}
