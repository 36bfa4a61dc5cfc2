"""InitProducerId.

Behaviour: an idempotent producer gets a fresh producer id with epoch 0 from this broker's block. A
transactional producer is told UNSUPPORTED_VERSION: there is no coordinator of transactions, which
FindCoordinator told it before it came here.

Version notes: 3 names the former id and epoch, 6 is for two-phase commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.api_table import ApiKey
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.wire.messages.init_producer_id_response import InitProducerIdResponse
from barnabas.wire.request import Api, Parked, RequestContext

if TYPE_CHECKING:
    from barnabas.broker.roles import ProducerIdRole


def error_response(
    request: InitProducerIdRequest, code: int, message: str
) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


API = Api(
    ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest, error_response, "cluster", "idempotent-write"
)


def handle(request: InitProducerIdRequest, ctx: RequestContext, broker: ProducerIdRole) -> Parked:
    if request.transactional_id is not None:
        code = (
            ErrorCode.UNSUPPORTED_VERSION if request.transactional_id else ErrorCode.INVALID_REQUEST
        )
        raise KafkaError(code, "transactions have no coordinator here")
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a producer id without epoch, or the reverse")
    parked = Parked()

    def on_id(given: int | KafkaError) -> None:
        if isinstance(given, KafkaError):
            parked.complete(error_response(request, given.code, given.message))
        else:
            parked.complete(InitProducerIdResponse(producer_id=given, producer_epoch=0))

    broker.producer_ids.allocate(on_id)
    return parked
