"""The version in what the driver sends to executors; another version there is one sentence.

Readers, writers and ranges are pickled. An executor with another version of the package would fail at some
attribute that is missing, or read what was meant otherwise: so the version goes first, and is compared
before the rest is unpickled.

``pyspark`` outside the range that has the interfaces is a sentence too (:func:`check_pyspark`).
"""

from __future__ import annotations

import pickle
import platform
import socket
from collections.abc import Callable
from typing import Any

import barnabas
from barnabas.pipeline.errors import ExecutorError

PYSPARK_MIN, PYSPARK_END = (4, 2), (5,)


class SameVersion:
    """Mixed into what is pickled for executors."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, bytes]]:
        return received, (barnabas.__version__, pickle.dumps((type(self), self.__dict__)))


def received(version: str, pickled: bytes) -> Any:
    """The object, on the executor. Raises `ExecutorError`."""
    if version != barnabas.__version__:
        raise ExecutorError(
            f"executor on {socket.gethostname()} has barnabas {barnabas.__version__}, and the driver"
            f" {version}: install the driver's version there: pip install 'barnabas[spark]=={version}'"
        )
    kind, state = pickle.loads(pickled)
    made = kind.__new__(kind)
    made.__dict__.update(state)
    return made


def check_pyspark(version: str) -> None:
    """Raises `ExecutorError` for a pyspark without the interfaces of format barnabas."""
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if PYSPARK_MIN <= numbers < PYSPARK_END:
        return
    raise ExecutorError(
        f"format barnabas needs pyspark >=4.2,<5, and {platform.node()} has {version}:"
        " pip install 'pyspark>=4.2,<5' on the driver and on every executor"
    )
