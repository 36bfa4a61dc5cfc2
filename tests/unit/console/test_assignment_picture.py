"""The picture of a group's assignment."""

from __future__ import annotations

from barnabas.client.groups import DescribedMember
from barnabas.console.cluster_views.assignment_picture import assignment_picture
from barnabas.types import TopicPartition

HOSTILE = "</title><script>alert(1)</script>\x1b"


def member(name: str) -> DescribedMember:
    return DescribedMember(name, None, "c", "h", b"", b"")


def test_each_partition_is_a_square_in_the_colour_of_its_member() -> None:
    partitions = [TopicPartition("t", index) for index in range(3)]
    [(topic, picture)] = assignment_picture(
        partitions, [(member("a"), partitions[:1]), (member("b"), partitions[1:2])]
    )
    assert topic == "t"
    assert [picture.count(f'class="{kind}"') for kind in ("m0", "m1", "unread")] == [1, 1, 1]
    assert "t-1: b" in picture


def test_a_name_that_is_markup_stays_a_title() -> None:
    [(_, picture)] = assignment_picture([], [(member(HOSTILE), [TopicPartition("t", 0)])])
    assert "<script>" not in picture
    assert "&lt;script&gt;" in picture
    assert "\x1b" not in picture


def test_many_partitions_fill_several_rows() -> None:
    partitions = [TopicPartition("t", index) for index in range(100)]
    [(_, picture)] = assignment_picture(partitions, [])
    assert picture.count("<rect") == 100
    assert "style=" not in picture
