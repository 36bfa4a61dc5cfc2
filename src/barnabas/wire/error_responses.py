"""Responses to requests that are refused as a whole, derived from the fields of the messages.

Some responses have one error code at their top. Others repeat the elements of the request, each with the
error code. An API whose response does neither makes it in its own module. An empty message is null in the
response, as in Kafka's.

Source: ``getErrorResponse`` of Kafka's requests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, TypeVar

from barnabas.wire.schema import Message

Response = TypeVar("Response", bound=Message)
ErrorResponse: TypeAlias = Callable[[Any, int, str], Response]
INDEXES = ("partition_index", "partition", "partition_id", "index")
"""The names that messages have for the index of a partition."""
IDENTITIES = frozenset(
    {
        *INDEXES, "group_id", "name", "producer_id", "resource_name", "resource_type", "topic", "topic_id",
        "transactional_id",
    }
)  # fmt: skip
"""The fields of a response that repeat which element of the request it answers."""


def top_level_error(response: type[Response], **absent: Any) -> ErrorResponse[Response]:
    """The `error_response` of an API whose response has one error code (and perhaps a message
    and a throttle time) at its top. `absent` are the fields whose default is not what says "none"."""
    with_message = "error_message" in response.__slots__

    def error_response(request: Any, code: int, message: str) -> Response:
        if with_message:
            return response(error_code=int(code), error_message=message or None, **absent)
        return response(error_code=int(code), **absent)

    return error_response


def mirrored_error(
    request: type[Message], response: type[Response], **absent: Any
) -> ErrorResponse[Response]:
    """The `error_response` of an API whose response has an error code for each element of the request, as
    `_mirror_of` derives it from the fields of both classes."""
    mirror = _mirror_of(request, response, absent)
    assert mirror.nested is not None, f"{response.__name__} has no element with an error code"

    def error_response(request: Any, code: int, message: str) -> Response:
        answer: Response = mirror.answer(request, int(code), message or None)
        return answer

    return error_response


class _Mirror(NamedTuple):
    """How to make one structure of a response out of the structure of the request that it answers."""

    made: type[Message]
    absent: dict[str, Any]
    has_code: bool
    has_message: bool
    repeated: tuple[tuple[str, str | None], ...]
    """Fields of the response, each with the field of the request that it repeats. None: the request has no
    structure there, but a list of names, ids or indexes."""
    nested: tuple[str, str, _Mirror] | None
    """The array of the response and that of the request, and how to make one of its elements."""

    def answer(self, asked: Any, code: int, message: str | None) -> Any:
        values = dict(self.absent)
        if self.has_code:
            values["error_code"] = code
        if self.has_message:
            values["error_message"] = message
        for name, source in self.repeated:
            values[name] = asked if source is None else getattr(asked, source)
        if self.nested is not None:
            name, source, element = self.nested
            values[name] = [
                element.answer(one, code, message) for one in getattr(asked, source) or ()
            ]
        return self.made(**values)


def _mirror_of(
    asked: type[Message] | None, made: type[Message], absent: dict[str, Any], *, is_top: bool = True
) -> _Mirror:
    """Pair the first array of `asked` with the first array of `made` that has error codes, and so on within
    their elements. An element repeats its `IDENTITIES`."""
    names = {field.name for field in made.FIELDS}
    nested = None
    answers = next((f for f in made.FIELDS if f.array and _has_code(f.struct)), None)
    elements = None if asked is None else next((f for f in asked.FIELDS if f.array), None)
    if answers is not None and answers.struct is not None and elements is not None:
        element = _mirror_of(elements.struct, answers.struct, absent, is_top=False)
        nested = answers.name, elements.name, element
    return _Mirror(
        made,
        {name: value for name, value in absent.items() if name in names},
        "error_code" in names,
        "error_message" in names,
        () if is_top else _repeated(asked, made),
        nested,
    )


def _repeated(
    asked: type[Message] | None, made: type[Message]
) -> tuple[tuple[str, str | None], ...]:
    identities = [field.name for field in made.FIELDS if field.name in IDENTITIES]
    if asked is None:
        return ((identities[0], None),)
    sources = [(name, _source_of(name, asked)) for name in identities]
    return tuple((name, source) for name, source in sources if source is not None)


def _source_of(name: str, asked: type[Message]) -> str | None:
    names = [field.name for field in asked.FIELDS if not field.array]
    if name in names or name not in INDEXES:
        return name if name in names else None
    return next((other for other in names if other in INDEXES), None)


def _has_code(struct: type[Message] | None) -> bool:
    return struct is not None and any(
        field.name == "error_code" or (field.array and _has_code(field.struct))
        for field in struct.FIELDS
    )
