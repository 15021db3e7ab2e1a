"""The page of events: every one that is written down, in the words of the pages, and who is shown it."""
from docs.generate.markdown import code, plain, table
from docs.generate.words import MADE, Tongue

from gpufairy.core.lifecycle import ALLOWED, Happening
from gpufairy.devices.mps_values import MpsEvent
from gpufairy.web import event_words

INTRODUCTION = {
    "en": "What is written down as it happens: `fairy events` (`-f` follows), the pages Events and Audit, `GET /api/v1/events`. Each has its time, its name, whom it "
    "befell, why in words, and who did it where it was a person. Of sessions their owner and admins are told; of all else admins alone.",
    "ko": "일이 생길 때 적어 두는 것입니다. `fairy events`(`-f`는 따라가기), 이벤트와 감사 페이지, `GET /api/v1/events`에서 볼 수 있습니다. 시각, 이름, 누구의 일인지, 까닭, 사람이 한 일이면 "
    "누가 했는지가 있습니다. 세션의 이벤트는 주인과 관리자가, 나머지는 관리자만 봅니다.",
}  # fmt: skip
TITLES = {
    "of_sessions": "Of sessions", "of_gpus": "Of GPUs and bookings", "of_people": "Done by people", "of_classes": "Of classes",
}  # fmt: skip


def page(say: Tongue) -> str:
    parts = [f"# {say('Events')}\n", f"{INTRODUCTION[say.lang]} {MADE[say.lang]}\n"]
    for title, words in groups().items():
        rows = [(code(name), plain(say(text))) for name, text in words.items()]
        parts += [f"## {say(title)}\n", table((say("event"), say("in words")), rows)]
    parts += [f"## {say('Of shared GPUs (MPS)')}\n", table((say("event"),), [(code(one.value),) for one in MpsEvent])]
    parts += [f"## {say('The life of a session')}\n", f"{say('Which event leads from which state to which: there is no other way.')}\n"]
    rows = [(code(before.value), code(what.value), code(after.value)) for (before, what), after in ALLOWED.items() if what in Happening]
    parts.append(table((say("from"), say("event"), say("to")), rows))
    return "\n".join(parts)


def groups() -> dict[str, dict[str, str]]:
    """Every function of that module that has words, also one that is new there."""
    made = {name: function() for name, function in vars(event_words).items() if name.startswith("of_")}
    return {TITLES.get(name, name.removeprefix("of_").replace("_", " ").capitalize()): words for name, words in made.items()}
