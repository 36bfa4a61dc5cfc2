"""The template of clusters: what its processes have, how they end, and what is left of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.testing import template as module
from barnabas.testing.cluster import Cluster
from barnabas.testing.processes import ForkedProcess, Process
from barnabas.testing.template import TEMPLATE, Template
from tests.process.launch import await_nothing, has_ended

pytestmark = [pytest.mark.process, pytest.mark.slow]
END_S = 60.0
IS_KILLED = """
import os, signal
from barnabas.testing.cluster import Cluster
from barnabas.testing.template import TEMPLATE
cluster = Cluster(1)
cluster.start()
cluster.kill(1)
cluster.restart(1)
print(TEMPLATE.pid, cluster._restarted[1].pid, cluster.directory, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
IS_CLOSED = """
from barnabas.testing.template import TEMPLATE
TEMPLATE.prepare()
print(TEMPLATE.pid, flush=True)
"""


@pytest.fixture(scope="module")
def template() -> Iterator[Template]:
    """One whose processes echo."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        found = Template("tests.process.echoing_template")
        found.prepare()
        yield found
        found.close()


def start(template: Template, folder: Path, *words: str, ready: int | None = None) -> Process:
    with (folder / "said").open("wb") as output:
        return template.start(words, {**os.environ, "COLOUR": "blue"}, output, ready)


def test_a_forked_process_has_what_it_was_given_and_no_more(
    template: Template, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    reading, ready = os.pipe()
    process = start(template, tmp_path, "echo", "7", ready=ready)
    for descriptor in (reading, ready):
        os.close(descriptor)
    assert isinstance(process, ForkedProcess)
    process.stdin.write(b"in")
    process.stdin.close()
    assert process.wait(END_S) == 7 and process.poll() == 7
    said = json.loads((tmp_path / "said").read_text())
    assert said.pop("variables") == {**os.environ, "COLOUR": "blue"}
    assert said == {
        "words": ["echo", "7", "--tell-ready", "3"],
        "descriptors": [0, 1, 2, 3],
        "folder": str(tmp_path),
        "session": template.pid,
        "threads": 1,
        "input": "in",
    }


def test_a_forked_process_ends_by_a_signal_and_waiting_has_a_limit(
    template: Template, tmp_path: Path
) -> None:
    process = start(template, tmp_path, "wait")
    assert isinstance(process, ForkedProcess)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.0)
    process.terminate()
    assert process.wait(END_S) == -signal.SIGTERM
    process.kill()  # nothing is there any more


def test_a_process_outlives_a_template_that_was_killed(tmp_path: Path) -> None:
    template = Template("tests.process.echoing_template")
    process = start(template, tmp_path, "wait")
    if not isinstance(process, ForkedProcess):
        pytest.skip("no process can be forked here")
    assert template.pid is not None
    os.kill(template.pid, signal.SIGKILL)
    assert has_ended(template.pid, END_S) and process.poll() is None
    process.kill()
    assert process.wait(END_S) == -signal.SIGKILL
    template.close()


@pytest.mark.parametrize("reason", ["no fork", "PYTHONHASHSEED", "no program"])
def test_a_process_is_started_from_nothing_where_it_cannot_be_forked(
    reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = Template("barnabas.nothing" if reason == "no program" else module.PROGRAM)
    environment = dict(os.environ)
    if reason == "no fork":
        monkeypatch.setattr(module, "can_fork", lambda: False)
    elif reason == "PYTHONHASHSEED":
        environment[reason] = "7"
    with (tmp_path / "said").open("wb") as output:
        process = template.start(["up"], environment, output)
    assert isinstance(process, subprocess.Popen)
    assert process.wait(END_S) == 2
    assert (tmp_path / "said").read_text().startswith("--data DIR is missing")
    assert process.stdin is not None
    process.stdin.close()
    template.close()


def test_a_killed_test_leaves_neither_template_nor_processes() -> None:
    said = subprocess.run([sys.executable, "-c", IS_KILLED], stdout=subprocess.PIPE, check=False)
    assert said.returncode == -signal.SIGKILL
    template, node, directory = said.stdout.decode().split()
    assert has_ended(int(node), END_S) and has_ended(int(template), END_S)
    await_nothing(Path(directory))


def test_a_template_ends_with_the_program_that_did_not_use_it() -> None:
    said = subprocess.run([sys.executable, "-c", IS_CLOSED], stdout=subprocess.PIPE, check=True)
    assert has_ended(int(said.stdout), END_S)


@pytest.mark.parametrize("kind", ["secure", "faults"])
def test_a_forked_cluster_may_be_secure_or_have_faults(kind: str) -> None:
    secure = kind == "secure"
    TEMPLATE.close()  # that of an earlier test may have begun with other variables
    with Cluster(1, secure=secure, faults=not secure) as cluster:
        assert isinstance(cluster._up, ForkedProcess)
        assert bool(cluster.client_properties) is secure
        assert (cluster.faults is None) is secure
        assert os.getsid(cluster._up.pid) == TEMPLATE.pid
    await_nothing(cluster.directory)
