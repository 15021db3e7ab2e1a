"""What is said to whoever called a command of this machine. Imports nothing: such commands start fast."""
import sys


def say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def say_line(text: str) -> None:
    say(f"{text}\n")
