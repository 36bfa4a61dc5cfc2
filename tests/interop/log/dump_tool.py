"""Apache Kafka's ``kafka-dump-log``, as the tests call it."""

from __future__ import annotations

import re
import subprocess

from tests.peers import LIBS


def dump(*arguments: str) -> str:
    """What the tool says. Fails where it fails or complains on its error stream."""
    command = ["java", "-cp", f"{LIBS}/*", "org.apache.kafka.tools.DumpLogSegments", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    complaints = [line for line in done.stderr.splitlines() if "log4j" not in line.lower()]
    assert not [line for line in complaints if re.search("error|exception|mismatch", line, re.I)]
    return done.stdout
