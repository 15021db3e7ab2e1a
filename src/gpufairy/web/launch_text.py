"""A submit as text to take along: the session file, and the command that does the same. Both read back to the very same body."""
import re
import shlex
from typing import Any

import yaml

from gpufairy.wire.submit import SubmitBody

# What YAML takes for itself as it stands. Everything else is quoted: rather a quote too many than a word that means something.
PLAIN = re.compile(r"(?!\d{4}-)[A-Za-z0-9_/.][A-Za-z0-9_/.+@=-]*(?::[A-Za-z0-9_/.+@=-]+)*")
NOT_PLAIN = ("null", "true", "false", "yes", "no", "on", "off", "y", "n")  # other readers take these for something else than text
OPTIONS = {
    "name": "--name", "gpus": "--gpus", "gpu_kind": "--gpu-kind", "gpu_memory": "--gpu-memory", "cpus": "--cpus", "memory": "--memory",
    "image": "--image", "time": "--time", "mounts": "--mount", "ports": "--port", "preset": "--preset", "team": "--team",
    "priority": "--priority", "pool": "--pool", "after": "--after", "retry": "--retry", "workdir": "--workdir", "count": "--count",
}  # fmt: skip
FLAGS = {"together": "--together", "preemptible": "--preemptible"}


def session_file(body: SubmitBody) -> str:
    """As `fairy apply` takes it."""
    lines: list[str] = []
    for name, value in body.model_dump(exclude_none=True).items():
        if isinstance(value, dict):
            lines += [f"{name}:", *(f"  {scalar(str(key))}: {scalar(str(one))}" for key, one in value.items())]
        else:
            lines.append(f"{name}: {yaml_value(value)}")
    return "\n".join(lines) + "\n"


def yaml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(yaml_value(one) for one in value)}]"
    return str(value) if isinstance(value, int) else scalar(str(value))


def scalar(text: str) -> str:
    if PLAIN.fullmatch(text) and text.lower() not in NOT_PLAIN:
        return text
    quoted: str = yaml.safe_dump(text, default_style='"', allow_unicode=True, width=float("inf"))
    return quoted.strip()


def command_line(body: SubmitBody, fairy: str) -> str:
    """`fairy run …` for a job, `fairy start …` for an interactive session."""
    said = body.model_dump(exclude_none=True)
    command = said.pop("command", None)
    words = ["run" if command else "start"]
    for name, option in OPTIONS.items():
        given = said.get(name)
        for value in given if isinstance(given, list) else [given]:
            words += [] if value is None else option_words(option, str(value))
    words += [word for key, value in said.get("env", {}).items() for word in ("--env", f"{key}={value}")]
    words += [flag for name, flag in FLAGS.items() if said.get(name)]
    if command:
        words += ["--", *(["sh", "-c", command] if isinstance(command, str) else command)]
    return f"{fairy} {shlex.join(words)}"


def option_words(option: str, value: str) -> list[str]:
    """What begins with a dash is tied to its option: it would be taken for another."""
    return [f"{option}={value}"] if value.startswith("-") else [option, value]
