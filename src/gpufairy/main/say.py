"""A line for whoever called a command of this machine. Imports nothing: such commands start fast."""
import sys


def say_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
