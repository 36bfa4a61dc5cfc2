"""`configs alter` shows under "after" what holds, although a broker may hear of the change a moment later; it
says where it changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.cli.commands import configs
from barnabas.cli.commands.configs import APPEND, DELETE, SET, SUBTRACT
from barnabas.client.operations import ConfigEdit
from barnabas.metadata.image.image import TOPIC


class Late:
    """A broker that says the old values a few times."""

    def __init__(self, old: dict[str, str | None], new: dict[str, str | None]) -> None:
        self.answers = [old, old, old, new]
        self.waited_ms = 0.0

    def run_for(self, ms: float) -> None:
        self.waited_ms += ms


@pytest.mark.parametrize(
    ("edit", "old", "new"),
    [
        (ConfigEdit("k", SET, "2"), "1", "2"),
        (ConfigEdit("k", DELETE, None), "1", "0"),
        (ConfigEdit("k", APPEND, "b"), "a", "a,b"),
        (ConfigEdit("k", SUBTRACT, "a"), "a,b", "b"),
    ],
)
def test_the_new_value_is_shown(
    edit: ConfigEdit, old: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    late: Any = Late({"k": old}, {"k": new})
    monkeypatch.setattr(configs, "_values", lambda connected, resource: connected.answers.pop(0))
    resource: Any = None
    assert configs._values_with(late, resource, [edit], {"k": old}) == {"k": new}
    assert late.waited_ms > 0


def test_a_key_that_is_not_there_is_not_deleted_without_a_word(
    capsys: pytest.CaptureFixture[str],
) -> None:
    resource = configs.Resource(TOPIC, "t")
    edit = ConfigEdit("retenton.ms", DELETE, None)
    configs._warn_of_unknown(resource, [edit], {"retention.ms": "1"})
    said = capsys.readouterr().err
    assert said == "warning: topic t has no key retenton.ms (did you mean retention.ms?)\n"
    configs._warn_of_unknown(resource, [edit], {"retenton.ms": "1"})
    assert capsys.readouterr().err == ""
