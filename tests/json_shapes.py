"""Compares what a command printed with --json with the shape that is documented for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from barnabas.cli.json_output.outputs import OUTPUTS, output_of
from barnabas.cli.json_output.shapes import mismatches


def assert_documented(words: Sequence[str], value: Any) -> None:
    name = output_of([word for word in words if word != "barnabas"])
    wrong = list(mismatches(value, OUTPUTS[name]))
    assert not wrong, f"{name}: {wrong}"
