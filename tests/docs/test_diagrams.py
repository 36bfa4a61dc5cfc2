"""Diagrams of the documentation are state diagrams that Mermaid reads."""

from __future__ import annotations

import re

import pytest

from tests.docs.test_paths import PAGES

DIAGRAMS = [
    (page.name, number, text)
    for page in PAGES
    for number, text in enumerate(
        re.findall(r"^```mermaid\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    )
]
STATE = r"(?:\[\*\]|[A-Za-z]\w*)"
TRANSITION = re.compile(rf"({STATE}) --> ({STATE})(?:: ([^:;#{{}}]+))?")
ALIAS = re.compile(r'state "([^"]+)" as ([A-Za-z]\w*)')


@pytest.mark.parametrize(("page", "number", "text"), DIAGRAMS)
def test_a_state_diagram_has_only_transitions_of_its_states(
    page: str, number: int, text: str
) -> None:
    """Of Mermaid's grammar the pages use this much; another kind of diagram needs a check of its own."""
    first, *lines = [line.strip() for line in text.splitlines() if line.strip()]
    assert first == "stateDiagram-v2", f"{page}: {first}"
    aliases = {found[2] for line in lines if (found := ALIAS.fullmatch(line))}
    transitions = [TRANSITION.fullmatch(line) for line in lines if not ALIAS.fullmatch(line)]
    wrong = [line for line in lines if not (ALIAS.fullmatch(line) or TRANSITION.fullmatch(line))]
    assert not wrong, wrong
    states = {state for found in transitions if found for state in (found[1], found[2])}
    assert aliases <= states, f"{page}: states without a transition: {aliases - states}"


def test_there_are_diagrams() -> None:
    assert len(DIAGRAMS) >= 4
