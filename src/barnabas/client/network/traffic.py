"""Counts what one kind of connections carries: requests, responses and their bytes."""

from __future__ import annotations

from collections.abc import Iterable


class CarriedTraffic:
    """The traffic of one purpose's connections since the process began."""

    __slots__ = ("bytes_in", "bytes_out", "requests", "responses")

    def __init__(self) -> None:
        self.requests = self.responses = self.bytes_in = self.bytes_out = 0

    @classmethod
    def sum_of(cls, parts: Iterable[CarriedTraffic]) -> CarriedTraffic:
        total = cls()
        for part in parts:
            total.requests += part.requests
            total.responses += part.responses
            total.bytes_in += part.bytes_in
            total.bytes_out += part.bytes_out
        return total

    def __repr__(self) -> str:
        return (
            f"CarriedTraffic({self.requests} requests of {self.bytes_out} bytes,"
            f" {self.responses} responses of {self.bytes_in} bytes)"
        )
