"""Requests that wait until a starting broker in ZooKeeper mode has the cluster's metadata.

Where ZooKeeper coordinates the cluster, a broker may receive its controller's orders on the listener that
clients use. So the listener must serve before the broker knows any topic. Until then all other requests
wait; answered earlier, clients would see a cluster without topics. (In KRaft mode the connections wait.)
A waiting request holds its connection, so that a client's writes take effect in their order. The
controller's connection has its orders only, which never wait.

Source: Kafka's ``SocketServer.enableRequestProcessing``, which waits for the start, not for the metadata.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from barnabas.ports import Ports, call_all
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.request import Api, HandlerModule, Parked, RequestContext, Working


class ReadyGate:
    """Holds requests until `open` is called, and none after that."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._waiting: list[Callable[[], None]] = []
        self.is_open = False

    def open(self) -> None:
        """Handle the waiting requests, in the order of their arrival, and from now on each at once."""
        self.is_open = True
        waiting, self._waiting = self._waiting, []
        call_all(waiting)

    def before(self, module: HandlerModule) -> HandlerModule:
        """`module` behind this gate: its requests wait until the gate is open."""

        def handle(request: Any, ctx: RequestContext, role: Any) -> Any:
            if self.is_open:
                return module.handle(request, ctx, role)
            working = Working()
            self._waiting.append(partial(self._serve, module, request, ctx, role, working))
            return working

        return cast("HandlerModule", SimpleNamespace(API=module.API, handle=handle))

    def _serve(
        self, module: HandlerModule, request: Any, ctx: RequestContext, role: Any, waiting: Working
    ) -> None:
        if waiting.done:
            return  # its connection has ended
        api: Api = module.API
        failed = partial(self._fail, api, request, waiting)
        try:
            result = module.handle(request, ctx, role)
        except Exception as error:  # noqa: BLE001 - one request's fault is not the others'
            failed(error)
            return
        if not isinstance(result, Parked):
            waiting.complete(result)
        else:
            result.attach(lambda answer: _complete(waiting, answer))
            if isinstance(result, Working):
                result.watch(waiting.release, failed)
                if result.holds:
                    return
        waiting.release()

    def _fail(self, api: Api, request: Any, waiting: Working, error: Exception) -> None:
        if not isinstance(error, KafkaError):
            self._ports.log("error", "request.failed", api=api.key.name, error=repr(error))
            error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, type(error).__name__)
        waiting.complete(api.error_response(request, error.code, error.message))
        waiting.release()

    def __repr__(self) -> str:
        return f"ReadyGate({'open' if self.is_open else f'{len(self._waiting)} waiting'})"


def _complete(parked: Parked, answer: Any) -> None:
    parked.complete(answer)
