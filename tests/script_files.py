"""Text scripts: one command per line after ``> ``, and below it, indented, what it caused.

Other lines are comments. ``BARNABAS_REWRITE=1`` rewrites the files; what differs is for the reader to judge.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

SCRIPTS = Path(__file__).parent / "scripts"
Run = Callable[[str], list[str]]
"""Does one command; returns what it caused."""


def files_of(*folders: str) -> list[Path]:
    """The scripts of some folders of `SCRIPTS`."""
    return [path for folder in folders for path in sorted((SCRIPTS / folder).glob("*.txt"))]


def texts_of(path: Path, run: Run) -> tuple[str, str]:
    """The text of a script, and the text that it has when it is true."""
    text, wanted = path.read_text(), []
    for line in text.splitlines():
        if line.startswith("> "):
            wanted += [line, *(f"  {told}" for told in run(line[2:]))]
        elif not line.startswith("  "):
            wanted.append(line)  # a comment
    return text, "\n".join(wanted) + "\n"


def check_file(path: Path, run: Run) -> None:
    """Run a script from its beginning to its end."""
    present, wanted = texts_of(path, run)
    if os.environ.get("BARNABAS_REWRITE"):
        path.write_text(wanted)
        return
    assert wanted == present


def parts_of(line: str) -> tuple[str, list[str], dict[str, str]]:
    """A command's name, its words, and those that are ``name=value``."""
    name, *words = line.split()
    given = dict(word.split("=", 1) for word in words if "=" in word)
    return name, [word for word in words if "=" not in word], given
