"""The key that a misspelt one was meant to be: the nearest of those that there are, or none.

Letters count whatever their case, and ``_`` or ``-`` as a dot. Of keys that are equally near the first in
the alphabet is named.
"""

from __future__ import annotations

from collections.abc import Iterable

ALIKE_MIN = 0.8
"""The likeness by difflib's measure below which two keys are different ones."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The key of `known` that `name` looks like; None where none is near."""
    from difflib import SequenceMatcher  # only who misspells a key needs it

    compared = SequenceMatcher(b=_text(name), autojunk=False)
    best, alike = None, ALIKE_MIN
    for key in sorted(known):
        compared.set_seq1(_text(key))
        if compared.real_quick_ratio() < alike or compared.quick_ratio() < alike:
            continue
        ratio = compared.ratio()
        if ratio > alike or (best is None and ratio == alike):
            best, alike = key, ratio
    return best


def hint(name: str, known: Iterable[str]) -> str:
    """`` (did you mean ...?)``, or nothing: the end of a sentence on a key that there is not."""
    found = nearest(name, known)
    return f" (did you mean {found}?)" if found is not None else ""


def _text(name: str) -> str:
    return name.lower().replace("_", ".").replace("-", ".")
