"""Errors of executors that are not set up: one sentence with the executor and the remedy."""

from __future__ import annotations

import pickle
import socket

import pytest

import barnabas
from barnabas.pipeline.errors import ExecutorError
from barnabas.pipeline.jobs.doctor import judged
from barnabas.pipeline.jobs.executor_errors import explained
from barnabas.pipeline.jobs.job_failures import cause_in
from barnabas.pipeline.offsets import Range
from barnabas.pipeline.read.source import RangePartition
from barnabas.pipeline.same_version import check_pyspark, received

LOST = "Lost task 0.3 in stage 1.0 (TID 7) (10.0.0.5 executor 2): org.apache.spark.api.python: "


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ModuleNotFoundError: No module named 'barnabas'", "pip install 'barnabas[spark]'"),
        (
            "Python in worker has different version: 3.10 than that in driver: 3.11, PySpark cannot run",
            "has Python 3.10, and the driver 3.11",
        ),
        ('java.io.IOException: Cannot run program "/opt/py/bin/python": error=2', "PYSPARK_PYTHON"),
    ],
)
def test_an_executor_that_is_not_set_up_is_named_with_the_remedy(text: str, said: str) -> None:
    sentence = cause_in(LOST + text)
    assert sentence.startswith("executor 2 on 10.0.0.5 has")
    assert said in sentence


def test_other_errors_are_left_as_they_are() -> None:
    assert explained(LOST + "ModuleNotFoundError: No module named 'users_own'") is None
    assert cause_in("OptionError: no such thing") == "OptionError: no such thing"


def test_an_error_of_another_version_is_refused_before_it_is_unpickled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent = pickle.dumps(RangePartition(Range("t", 0, 1, 5, None)))
    assert pickle.loads(sent).what.end == 5
    monkeypatch.setattr(barnabas, "__version__", "9.9")
    with pytest.raises(ExecutorError, match=f"executor on {socket.gethostname()} has barnabas 9.9"):
        pickle.loads(sent)
    with pytest.raises(ExecutorError, match=r"the driver 1\.0"):
        received("1.0", b"no pickle at all")


def test_a_pyspark_out_of_range_is_refused_with_the_range() -> None:
    for good in ("4.2.0", "4.3.0", "4.9.1.dev0"):
        check_pyspark(good)
    for bad in ("3.5.1", "4.0.1", "4.1.0", "5.0.0"):
        with pytest.raises(ExecutorError, match=f">=4.2,<5, and .* has {bad}"):
            check_pyspark(bad)


def test_the_doctor_judges_versions_cache_cluster_and_checkpoint() -> None:
    packages = {"barnabas": "0.0.1", "pyspark": "4.3.0", "numba": None}
    answer = {
        "host": "h", "folder": "/w", "python": "3.11.7", "executable": "/p", "packages": packages,
        "machine_code": False, "unreachable": {"b:9092": "refused"},
        "folders": {"/c": (False, "", "Permission denied")},
    }  # fmt: skip
    bad = {each.check: each.said for each in judged(answer, "/c", "/c") if not each.is_well}
    assert list(bad) == [
        f"executor on h (/w): {each}"
        for each in ("barnabas", "numba", "machine code", "cluster", "checkpoint")
    ]
    assert "0.0.1, and the driver has" in bad["executor on h (/w): barnabas"]
    assert "NUMBA_CACHE_DIR" in bad["executor on h (/w): machine code"]
