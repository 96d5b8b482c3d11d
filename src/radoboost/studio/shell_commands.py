"""The command that does the same as a step on a page, for a shell."""

import shlex
from collections.abc import Sequence
from pathlib import PurePath


def command(*words: object) -> str:
    r"""A command of rado as one line for a shell.

    A file's name that begins with a dash is given as a path, and control characters as bash writes them.
    """
    return " ".join(_quoted(word) for word in ("rado", *words))


def piped_command(lines: Sequence[str], *words: object) -> str:
    """A command of rado that reads lines from standard input."""
    return f"printf '%s\\n' {' '.join(_quoted(line) for line in lines)} | {command(*words)}"


def _quoted(word: object) -> str:
    text = str(word)
    if isinstance(word, PurePath) and text.startswith("-"):
        text = f"./{text}"
    if text.isprintable():
        return shlex.quote(text)
    letters = (_escaped(letter) for letter in text)
    return f"$'{''.join(letters)}'"


def _escaped(letter: str) -> str:
    if letter in "'\\":
        return f"\\{letter}"
    if letter.isprintable():
        return letter
    if letter == "\n":
        return r"\n"
    return "".join(f"\\x{byte:02x}" for byte in letter.encode("utf-8", "surrogateescape"))
