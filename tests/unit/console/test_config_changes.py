"""Changes of configurations as a page shows them before they are made."""

from __future__ import annotations

import pytest

from barnabas.cli.failure import Failure
from barnabas.client.operations import DescribedKey, Setting
from barnabas.console.cluster_views.config_changes import (
    ResourceName,
    edit_of,
    resource_named,
    setting_after,
)

TOPIC = ResourceName("topic", "flights")


def key(value: str, source: int = 1, *below: Setting) -> DescribedKey:
    own = Setting(source, "k", value)
    return DescribedKey("k", value, source, False, False, 2, "", (own, *below))


@pytest.mark.parametrize(
    ("known", "way", "value", "after"),
    [
        (None, "set", "1", "k=1"),
        (key("7"), "set", "1", "k=1"),
        (key("7", 1, Setting(4, "log.k", "9"), Setting(5, "log.k", "3")), "delete", "", "log.k=9"),
        (key("7", 1), "delete", "", None),
        (key("9", 4, Setting(5, "log.k", "3")), "delete", "", "k=9"),
        (key("a,b"), "append", "b,c", "k=a,b,c"),
        (key(""), "append", "c", "k=c"),
        (key("a,b,c"), "subtract", "b", "k=a,c"),
        (None, "append", "c", "k=c"),
        (None, "subtract", "c", "k="),
    ],
)
def test_a_plan_says_what_holds_after_a_change(
    known: DescribedKey | None, way: str, value: str, after: str | None
) -> None:
    assert setting_after(TOPIC, known, edit_of(TOPIC, "k", way, value)) == after


def test_a_setting_of_all_brokers_stays_when_one_brokers_key_is_deleted() -> None:
    known = key("7", 3, Setting(5, "k", "1"))
    edit = edit_of(ResourceName("broker", "1"), "k", "delete", "")
    assert setting_after(ResourceName("broker", "1"), known, edit) == "k=7"
    assert setting_after(ResourceName("brokers", ""), known, edit) == "k=1"


@pytest.mark.parametrize(
    ("kind", "name"),
    [("topic", ""), ("broker", "one"), ("broker", ""), ("logger", "1"), ("", "")],
)
def test_a_resource_that_is_none_is_refused(kind: str, name: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        resource_named(kind, name)


@pytest.mark.parametrize(
    ("key", "way"), [("k", "burn"), ("", "set"), (" ", "append"), ("a=b", "set")]
)
def test_a_change_that_is_none_is_refused(key: str, way: str) -> None:
    with pytest.raises((ValueError, Failure)):
        edit_of(TOPIC, key, way, "1")


def test_a_resource_is_named_by_the_options_of_the_command() -> None:
    assert resource_named("topic", "flights").options == ["--topic", "flights"]
    assert resource_named("brokers", "ignored").options == ["--broker-defaults"]
    assert str(resource_named("brokers", "")) == "all brokers"
