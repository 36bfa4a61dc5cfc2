"""The authorization rules of the configuration APIs, by the type of each resource.

Source: Kafka's ConfigHelper, KafkaApis and ControllerApis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.metadata.image.image import BROKER_LOGGER
from barnabas.metadata.image.image import GROUP as GROUP_CONFIG
from barnabas.metadata.image.image import TOPIC as TOPIC_CONFIG
from barnabas.security.authorization.access_rules import (
    DENIED_CODE,
    DENIED_MESSAGE,
    AccessRule,
    Answer,
    Question,
    adding,
    ask,
)
from barnabas.security.authorization.acls import CLUSTER_NAME, AclResourceType, Operation
from barnabas.wire.schema import Message


def _resource_of(resource: Any) -> tuple[AclResourceType, str]:
    if resource.resource_type == TOPIC_CONFIG:
        return AclResourceType.TOPIC, resource.resource_name
    if resource.resource_type == GROUP_CONFIG:
        return AclResourceType.GROUP, resource.resource_name
    return AclResourceType.CLUSTER, CLUSTER_NAME


def _by_type(
    operation: Operation, answers: str, judged: Callable[[Any], bool] = lambda resource: True
) -> AccessRule:
    def check(question: Question) -> Answer:
        allowed: list[Any] = []
        left: dict[AclResourceType, list[Any]] = {}
        for resource in question.request.resources:
            kind, name = _resource_of(resource)
            if not judged(resource) or question.may(operation, kind, name):
                allowed.append(resource)
            else:
                left.setdefault(kind, []).append(resource)
        if not left:
            return None
        refused: list[Any] = []
        response: Any = None
        for kind, resources in left.items():
            response = question.refused(
                DENIED_CODE[kind], DENIED_MESSAGE[kind], resources=resources
            )
            refused += getattr(response, answers)
        if not allowed:
            setattr(response, answers, refused)
            assert isinstance(response, Message)
            return response
        question.request.resources = allowed
        return adding(answers, refused)

    asks = tuple(
        ask(operation, kind, f"{DENIED_CODE[kind].name} for each")
        for kind in (AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER)
    )
    return AccessRule(asks, check, ("resources",), (answers,))


DESCRIBE_CONFIGS = _by_type(Operation.DESCRIBE_CONFIGS, "results")
ALTER_CONFIGS = _by_type(Operation.ALTER_CONFIGS, "responses")
ALTER_LOGGERS = AccessRule(
    (
        ask(
            Operation.ALTER_CONFIGS,
            AclResourceType.CLUSTER,
            "CLUSTER_AUTHORIZATION_FAILED for each (the broker's loggers)",
        ),
    ),
    _by_type(
        Operation.ALTER_CONFIGS, "responses", lambda r: bool(r.resource_type == BROKER_LOGGER)
    ).check,
)
"""On a broker's listener only the broker's loggers are authorized; the controller authorizes the rest."""
