"""The page of commands: each with what it is for, its options and its example, as `fairy COMMAND -h` has them."""
from typing import Any

from docs.generate.markdown import code, fenced, plain, table
from docs.generate.words import MADE, Tongue

from gpufairy.cli.entry import root_command
from gpufairy.cli.table import COMMANDS, load

INTRODUCTION = {
    "en": "Every command of `fairy`, as `fairy COMMAND -h` tells it. A command that reads has `--json`. What users do with them is in [the manual](../manual.md), "
    "what exit codes mean in [exit codes](../manual.md#exit-codes).",
    "ko": "`fairy`의 모든 명령입니다. 설명은 `fairy COMMAND -h`가 보여 주는 그대로, 영어입니다. 읽는 명령에는 `--json`이 있습니다. 쓰는 법은 [사용자 설명서](../manual.ko.md)에, "
    "끝날 때의 숫자는 [종료 코드](../manual.ko.md#종료-코드)에 있습니다.",
}  # fmt: skip
HIDDEN = ("--install-completion", "--show-completion", "--help")


def page(say: Tongue) -> str:
    parts = [f"# {say('Commands')}\n", f"{INTRODUCTION[say.lang]} {MADE[say.lang]}\n", overview(say), f"## {say('Before the command')}\n"]
    parts.append(options(root_command(), say))
    for name in COMMANDS:
        parts += command(f"fairy {name}", load(name), COMMANDS[name].about, say, "##")
    return "\n".join(part for part in parts if part)


def overview(say: Tongue) -> str:
    parts = []
    for section in dict.fromkeys(row.section for row in COMMANDS.values()):
        rows = [(f"[{code(name)}](#fairy-{name})", plain(say(row.about))) for name, row in COMMANDS.items() if row.section == section]
        parts.append(f"**{say(section)}**\n\n" + table((say("command"), say("what for")), rows))
    return "\n".join(parts)


def command(title: str, found: Any, about: str, say: Tongue, marks: str) -> list[str]:
    longer = plain((found.help or "").replace("\b", "").strip())
    words = say(sentence(about))
    parts = [f"{marks} {title}\n", *([plain(words) + "\n"] if words != about or not longer else []), *([longer + "\n"] if longer else [])]
    parts += [fenced(usage(title, found)).replace("```sh", "```text"), options(found, say), example(found, say)]
    for name, below in sorted(getattr(found, "commands", {}).items()):
        if not below.hidden:
            parts += command(f"{title} {name}", below, (below.help or below.short_help or name).split("\n\n")[0], say, marks + "#")
    return parts


def sentence(about: str) -> str:
    return " ".join(about.split())


def usage(title: str, found: Any) -> str:
    told: str = found.get_usage(context(found, title))
    return " ".join(told.split()).removeprefix("Usage: ")


def options(found: Any, say: Tongue) -> str:
    shown = [param for param in found.params if not param.hidden and not set(param.opts) & set(HIDDEN)]
    told = [record for param in shown if (record := param.get_help_record(context(found, ""))) is not None]
    return table((say("option"), say("what it means")), [(code(names), plain(words)) for names, words in told]) if told else ""


def context(found: Any, title: str) -> Any:
    return found.context_class(found, info_name=title)


def example(found: Any, say: Tongue) -> str:
    lines = (found.epilog or "").replace("\b", "").strip().splitlines()
    shown = "\n".join(line.removeprefix("  ") for line in lines if line.strip() != "Example:")
    return fenced(shown) if shown else ""
