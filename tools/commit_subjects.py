"""Checks the messages of the commits since the last release: ``python -m tools.commit_subjects``.

A subject has at most 72 characters, and a body says why. Commits before `FIRST` are older than the rule.
Merges are left out, and a checkout without git's history has nothing to check.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
FIRST = "dd2d3f53"
"""The commit with which the rule begins; a release's tag after it takes its place."""
SUBJECT_MAX = 72


def problems(log: str) -> list[str]:
    """A sentence for each commit of ``git log --format=%h%n%s%n%b%x00`` that breaks the rule."""
    wrong = []
    for commit in log.split("\0"):
        name, _, message = commit.strip().partition("\n")
        subject, _, body = message.partition("\n")
        if len(subject) > SUBJECT_MAX:
            wrong.append(
                f"{name}: the subject has {len(subject)} characters, at most {SUBJECT_MAX}"
                f" are allowed: {subject}"
            )
        if name and not body.strip():
            wrong.append(f"{name}: no body says why: {subject}")
    return wrong


def git(*arguments: str) -> str | None:
    """What git prints; None where it fails, or where there is no git."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.decode(errors="replace")


def since() -> str | None:
    """The commit after which messages are checked; None where the history does not have it."""
    tag = (git("describe", "--tags", "--abbrev=0", "--match", "v*") or "").strip()
    if tag and git("merge-base", "--is-ancestor", FIRST, tag) is not None:
        return tag
    return FIRST if git("cat-file", "-e", FIRST) is not None else None


def main() -> int:
    first = since()
    if first is None:
        print("No history to check commits in")
        return 0
    log = git("log", "--no-merges", "--format=%h%n%s%n%b%x00", f"{first}..HEAD") or ""
    wrong = problems(log)
    print("\n".join(wrong) or f"{log.count(chr(0))} commits since {first} say what and why")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
