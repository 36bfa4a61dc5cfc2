"""The rules of APIs for the authorizer, as values: for the whole request, or for each of its items.

A rule looks at a request before its handler does. It lets it pass, takes the items out that the
principal may not have (their errors are put into the handler's response), or refuses all of it by
`KafkaError`. Handlers know nothing of it. The documentation's table is made of the same values.

Topics may go by id: an id that no topic has passes, and is the handler's to refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from typing import Any, NamedTuple

from barnabas.metadata.image.image import MetadataImage
from barnabas.security.authorization.acls import CLUSTER_NAME, AclResourceType, Operation
from barnabas.security.authorization.authorizer import Authorizer
from barnabas.types import Uuid
from barnabas.wire.api_table import ApiKey
from barnabas.wire.dispatch import ApiEntry, ApiTable, Handler
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.request import Api, Parked, RequestContext
from barnabas.wire.schema import Message

DENIED_CODE = {
    AclResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    AclResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    AclResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    AclResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    AclResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    AclResourceType.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
DENIED_MESSAGE = {
    AclResourceType.TOPIC: "Topic authorization failed.",
    AclResourceType.GROUP: "Group authorization failed.",
    AclResourceType.CLUSTER: "Cluster authorization failed.",
    AclResourceType.TRANSACTIONAL_ID: "Transactional Id authorization failed.",
    AclResourceType.DELEGATION_TOKEN: "Delegation Token authorization failed.",
    AclResourceType.USER: "Delegation Token authorization failed.",
}
Amend = Callable[[Message], Message]


class Question(NamedTuple):
    """One request at the authorizer."""

    request: Any
    ctx: RequestContext
    authorizer: Authorizer
    api: Api

    @property
    def image(self) -> MetadataImage:
        return self.authorizer.image

    def may(
        self, operation: Operation, kind: AclResourceType, name: str, *, audited: bool = True
    ) -> bool:
        return self.authorizer.may(self.ctx, operation, kind, name, audited=audited)

    def may_cluster(self, operation: Operation, *, audited: bool = True) -> bool:
        return self.may(operation, AclResourceType.CLUSTER, CLUSTER_NAME, audited=audited)

    def require(self, operation: Operation, kind: AclResourceType, name: str) -> None:
        """Raises the resource type's error where the principal may not do it."""
        if not self.may(operation, kind, name):
            raise denied(kind)

    def refused(self, code: ErrorCode, message: str = "", **fields: Any) -> Message | None:
        """The response in which what `fields` leave of the request carries `code`."""
        part = copy_with(self.request, **fields)
        return self.api.error_response(part, code, message or "")

    def topic_name(self, item: Any, name: str | None) -> str | None:
        """The name of an item that names a topic, or says its id; None where no topic has that id."""
        if name:
            return name
        topic = self.image.topics_by_id.get(Uuid(getattr(item, "topic_id", b"")))
        return name if topic is None else topic.name


Answer = Message | Amend | None
"""The result of a check: the answer, a change of the handler's response, or nothing."""


class Ask(NamedTuple):
    """A permission that a rule asks for, and the answer without it."""

    operation: Operation
    resource: AclResourceType
    denial: str


class AccessRule(NamedTuple):
    """A rule of one API. `asks` says for the documentation what `check` does."""

    asks: tuple[Ask, ...]
    check: Callable[[Question], Answer] | None
    request_fields: tuple[str, ...] = ()
    """The fields of the request that `check` reads by name, as ``list.field of an item``; a test looks for
    them in the message."""
    response_fields: tuple[str, ...] = ()
    """The lists of the response to which `check` adds refused items."""


def ask(operation: Operation, resource: AclResourceType, denial: str | None = None) -> Ask:
    """`denial` is the resource type's error unless it is given."""
    return Ask(operation, resource, denial or DENIED_CODE[resource].name)


def denied(kind: AclResourceType) -> KafkaError:
    return KafkaError(DENIED_CODE[kind], DENIED_MESSAGE[kind])


def copy_with(message: Any, **fields: Any) -> Any:
    """A shallow copy with other values of some fields."""
    other = copy(message)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


NOTHING = AccessRule((), None)
"""Every client may use the API."""


def whole(
    operation: Operation,
    kind: AclResourceType = AclResourceType.CLUSTER,
    field: str | None = None,
) -> AccessRule:
    """The request is refused unless the principal may do `operation` on what `field` names."""

    def check(question: Question) -> None:
        name = CLUSTER_NAME if field is None else getattr(question.request, field) or ""
        question.require(operation, kind, name)

    return AccessRule((ask(operation, kind),), check, () if field is None else (field,))


def each(
    operation: Operation,
    kind: AclResourceType,
    items: str,
    name: str | None,
    answers: str,
    *,
    unless: Operation | None = None,
) -> AccessRule:
    """Items of the list `items` are refused one by one; `name` is the field that names one (None: the item
    is its name). `unless` is an operation on the cluster that allows all of them."""

    def check(question: Question) -> Answer:
        if unless is not None and question.may_cluster(unless, audited=False):
            return None

        def name_of(item: Any) -> str | None:
            said = item if name is None else getattr(item, name)
            return question.topic_name(item, said) if kind is AclResourceType.TOPIC else str(said)

        return split(question, operation, kind, items, name_of, answers)

    asks = [ask(operation, kind, f"{DENIED_CODE[kind].name} for each")]
    if unless is not None:
        asks.append(ask(unless, AclResourceType.CLUSTER, "(instead of the above)"))
    read = items if name is None else f"{items}.{name}"
    return AccessRule(tuple(asks), check, (read,), (answers,))


def split(
    question: Question,
    operation: Operation,
    kind: AclResourceType,
    items: str,
    name_of: Callable[[Any], str | None],
    answers: str,
) -> Answer:
    """Leave in the request what the principal may have; the rest is refused in the response."""
    allowed: list[Any] = []
    left: list[Any] = []
    for item in getattr(question.request, items) or ():
        name = name_of(item)
        passes = name is None or question.may(operation, kind, name)
        (allowed if passes else left).append(item)
    return without(question, items, allowed, left, answers, denied(kind))


def without(
    question: Question,
    items: str,
    allowed: list[Any],
    left: list[Any],
    answers: str,
    error: KafkaError,
) -> Answer:
    """Split as `split` does, where it is known already what is allowed."""
    if not left:
        return None
    refused = question.refused(error.code, error.message, **{items: left})
    if refused is None:
        raise error
    if not allowed:
        return refused
    setattr(question.request, items, allowed)
    return adding(answers, getattr(refused, answers))


def adding(field: str, more: Iterable[Any]) -> Amend:
    """A change that puts `more` behind a list of the response."""

    def amend(response: Message) -> Message:
        setattr(response, field, [*getattr(response, field), *more])
        return response

    return amend


ACTION_WITHOUT_RULE = whole(Operation.CLUSTER_ACTION)
"""An API without a rule is for the cluster's own nodes."""


def both(*rules: AccessRule) -> AccessRule:
    """All of `rules`, one after the other."""

    def check(question: Question) -> Answer:
        amends: list[Amend] = []
        for rule in rules:
            assert rule.check is not None
            answer = rule.check(question)
            if isinstance(answer, Message):
                return amended(answer, amends)
            if answer is not None:
                amends.append(answer)
        return (lambda response: amended(response, amends)) if amends else None

    return AccessRule(
        tuple(asked for rule in rules for asked in rule.asks),
        check,
        tuple(field for rule in rules for field in rule.request_fields),
        tuple(field for rule in rules for field in rule.response_fields),
    )


def amended(response: Message, amends: Iterable[Amend]) -> Message:
    for amend in amends:
        response = amend(response)
    return response


def guard(
    table: ApiTable,
    rules: Mapping[ApiKey, AccessRule],
    authorizer: Authorizer | None,
    judged_elsewhere: Iterable[ApiKey] = (),
) -> None:
    """Put each API of a listener behind its rule, where there is an authorizer. An API that has none is
    refused, unless another node judges it."""
    if authorizer is None:
        return
    passed = frozenset(judged_elsewhere)

    def guarded_entry(entry: ApiEntry) -> Handler:
        rule = rules.get(entry.api.key)
        if rule is None:
            if entry.api.key in passed:
                return entry.handle
            rule = ACTION_WITHOUT_RULE
        return guarded(entry, rule, authorizer)

    table.guard(guarded_entry)


def guarded(entry: ApiEntry, rule: AccessRule, authorizer: Authorizer) -> Handler:
    """The handler of `entry` behind its rule."""
    inner, api, check = entry.handle, entry.api, rule.check
    if check is None:
        return inner

    def handle(request: Any, ctx: RequestContext, role: Any) -> Message | Parked | None:
        answer = check(Question(request, ctx, authorizer, api))
        if answer is None:
            return inner(request, ctx, role)
        if isinstance(answer, Message):
            return answer
        response = inner(request, ctx, role)
        if isinstance(response, Parked):
            response.amend(answer)
            return response
        return None if response is None else answer(response)

    return handle
