"""Calls an operator's policies (:mod:`barnabas.policy`); their violations become KafkaErrors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from barnabas.policy import ChangedConfigs, NewTopic, Policies, PolicyViolation, ResourceType
from barnabas.wire.errors import ErrorCode, KafkaError

Request = TypeVar("Request")


def check_new_topic(
    policies: Policies,
    name: str,
    configs: Mapping[str, str],
    *,
    size: tuple[int, int] | None = None,
    assignments: Mapping[int, tuple[int, ...]] | None = None,
) -> None:
    """Check a topic of `size` (partitions, replication factor), or of the replicas in `assignments`. Raises
    POLICY_VIOLATION, or UNKNOWN_SERVER_ERROR if the policy fails."""
    if policies.create_topic is not None:
        partitions, factor = size or (None, None)
        wanted = NewTopic(name, partitions, factor, assignments, dict(configs))
        _ask(policies.create_topic.validate, wanted)


def check_changed_configs(
    policies: Policies, kind: int, name: str, configs: Mapping[str, str | None]
) -> None:
    """Check the keys that a client sets, or removes (None). Raises POLICY_VIOLATION, or UNKNOWN_SERVER_ERROR
    if the policy fails."""
    if policies.alter_config is not None:
        changed = ChangedConfigs(ResourceType(kind), name, dict(configs))
        _ask(policies.alter_config.validate, changed)


def _ask(validate: Callable[[Request], None], request: Request) -> None:
    try:
        validate(request)
    except PolicyViolation as error:
        message = str(error) or "The policy does not allow it."
        raise KafkaError(ErrorCode.POLICY_VIOLATION, message) from error
    except Exception as error:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"The policy failed with {type(error).__name__}: {error}",
        ) from error
