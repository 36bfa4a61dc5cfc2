"""Authorization of the APIs of streams groups: the group, and the topics of its topology.

Source: ``KafkaApis.handleStreamsGroupHeartbeat`` and ``handleStreamsGroupDescribe`` of Apache Kafka 4.4.
"""

from __future__ import annotations

from typing import Any

from barnabas.security.authorization.access_rules import Answer, Question
from barnabas.security.authorization.acls import AclResourceType, Operation
from barnabas.security.authorization.group_access import check_groups_described

TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
HIDDEN_TOPICS = "The described group uses topics that the client is not authorized to describe."


def check_streams_heartbeat(question: Question) -> None:
    """Read on the group, and Describe on every topic of the topology, are needed."""
    request = question.request
    question.require(Operation.READ, GROUP, request.group_id)
    for name in sorted(_topics_of(request.topology)):
        question.require(Operation.DESCRIBE, TOPIC, name)


def check_streams_describe(question: Question) -> Answer:
    """A group with a topic that the principal may not describe is answered with an error."""
    return check_groups_described(question, lambda group: _topics_of(group.topology), HIDDEN_TOPICS)


def _topics_of(topology: Any) -> set[str]:
    names: set[str] = set()
    for part in () if topology is None else topology.subtopologies or ():
        names.update(part.source_topics, part.repartition_sink_topics)
        names.update(topic.name for topic in part.repartition_source_topics)
        names.update(topic.name for topic in part.state_changelog_topics)
    return names
