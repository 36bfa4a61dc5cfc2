"""Nodes that are forked find what they need for their start: modules and codecs."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from barnabas.cli import preloading
preloading.load_node(monitored={monitored})
from barnabas.wire import codec
compiled = [(cls.__name__, version) for cls, version in codec._readers]
print("barnabas.host.main" in sys.modules, "barnabas.monitoring.monitoring" in sys.modules)
print(("VoteRequest", 2) in compiled, ("FetchResponse", 18) in compiled, ("ConfigRecord", 0) in compiled)
"""


@pytest.mark.slow
@pytest.mark.parametrize("monitored", [True, False])
def test_the_parent_of_nodes_loads_what_they_need_and_no_more(monitored: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(monitored=monitored)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [f"True {monitored}", "True True True"]
