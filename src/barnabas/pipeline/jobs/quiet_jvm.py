"""A JVM for Spark that says nothing on its own, but lets warnings of pipelines through.

Spark's JVM, its logging and its Python workers write to one standard error, from before a log level can be
set. Here it goes through this process: lines of this package's log events pass, the last ones are kept for
the sentence of a JVM that does not start, the rest is dropped.

Source: pyspark's ``java_gateway.launch_gateway`` and ``SparkContext._ensure_initialized``.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections import deque
from typing import Any, TextIO

EVENT = re.compile(r"^(?:WARNING:\w+:)?pipeline\.\w+")
LINES_KEPT = 40


class QuietJvm:
    """The standard error of one JVM. `kept` are its last lines."""

    def __init__(self, out: TextIO | None = None) -> None:
        self.kept: deque[str] = deque(maxlen=LINES_KEPT)
        self._out = out

    def start(self, settings: dict[str, str]) -> None:
        """Start a JVM with the settings, which pyspark's next session takes; nothing where one runs."""
        from pyspark import SparkConf, SparkContext
        from pyspark.java_gateway import launch_gateway

        if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
            return
        reading, writing = os.pipe()
        threading.Thread(target=self._read, args=(reading,), daemon=True).start()
        conf = SparkConf(loadDefaults=False)
        for name, value in settings.items():
            conf.set(name, value)
        try:
            gateway: Any = launch_gateway(conf, {"stderr": writing})
        finally:
            os.close(writing)
        SparkContext._ensure_initialized(gateway=gateway, conf=conf)

    def _read(self, reading: int) -> None:
        with open(reading, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                self.kept.append(line)
                if EVENT.match(line):
                    (self._out or sys.stderr).write(line)
