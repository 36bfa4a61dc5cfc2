"""`barnabas groups describe --members` shows the tasks of a streams group's members."""

from __future__ import annotations

from barnabas.cli.commands.groups import tasks_text
from barnabas.client.groups import tasks_by_role
from barnabas.wire.messages.streams_group_describe_response import Assignment, TaskIds


def test_tasks_have_the_names_of_kafka_streams_by_role() -> None:
    assignment = Assignment(
        active_tasks=[TaskIds(subtopology_id="0", partitions=[0, 2])],
        standby_tasks=[TaskIds(subtopology_id="1", partitions=[1])],
    )
    tasks = tasks_by_role(assignment)
    assert tasks == {"active": ["0_0", "0_2"], "standby": ["1_1"]}
    assert tasks_text(tasks) == "active 0_0 0_2, standby 1_1"
    assert tasks_text(tasks_by_role(Assignment())) == "-"
