"""A group's assignment as a picture: a square for each partition, in the colour of the member that reads it.

The picture is SVG without inline style, as the policy wants it: classes have the colours. Names are titles,
which are escaped.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from barnabas.client.groups import DescribedMember
from barnabas.console.rendering import shown
from barnabas.types import TopicPartition, by_topic

COLOURS = 8
"""Colours that the style sheet has; members beyond share them."""
CELL, GAP, ACROSS = 16, 3, 32
CELLS_MAX = 2_000


def assignment_picture(
    partitions: Sequence[TopicPartition],
    members: Sequence[tuple[DescribedMember, Sequence[TopicPartition]]],
) -> list[tuple[str, Markup]]:
    """A picture for each topic. `partitions` are all of the group's, `members` those that read them; a
    partition that no one reads is empty."""
    owners = {
        tp: (index, member) for index, (member, assigned) in enumerate(members) for tp in assigned
    }
    every = sorted({*partitions, *owners})[:CELLS_MAX]
    return [(topic, _picture(topic, indexes, owners)) for topic, indexes in by_topic(every).items()]


def colour_of(index: int) -> str:
    """The class of a member's colour."""
    return f"m{index % COLOURS}"


def _picture(
    topic: str,
    indexes: Sequence[int],
    owners: dict[TopicPartition, tuple[int, DescribedMember]],
) -> Markup:
    cells = []
    for at, index in enumerate(indexes):
        owner = owners.get(TopicPartition(topic, index))
        name = "no one reads it" if owner is None else owner[1].instance_id or owner[1].member_id
        kind = "unread" if owner is None else colour_of(owner[0])
        cells.append(
            Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>').format(
                kind, at % ACROSS * (CELL + GAP), at // ACROSS * (CELL + GAP), CELL, CELL,
                shown(f"{topic}-{index}: {name}"),
            )
        )  # fmt: skip
    width = min(len(indexes), ACROSS) * (CELL + GAP)
    height = (len(indexes) + ACROSS - 1) // ACROSS * (CELL + GAP)
    frame = Markup(
        '<svg class="assignment" viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="img" aria-label="{2}">'
    )
    label = shown(f"who reads the {len(indexes)} partitions of {topic}")
    return frame.format(width, height, label) + Markup("").join(cells) + Markup("</svg>")
