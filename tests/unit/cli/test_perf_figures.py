"""What ``barnabas perf`` makes of its measurements."""

from __future__ import annotations

import zlib
from itertools import islice
from pathlib import Path

import pytest

from barnabas.cli.json_output.outputs import OUTPUTS
from barnabas.cli.json_output.shapes import mismatches
from barnabas.cli.main import main
from barnabas.cli.reports.perf_figures import Latencies, payloads, percentile, rates


def test_a_percentile_is_one_of_the_values() -> None:
    ordered = [float(number) for number in range(1, 1001)]
    assert [percentile(ordered, part) for part in (0.0, 0.5, 0.99, 0.999, 1.0)] == [
        1.0, 501.0, 991.0, 1000.0, 1000.0,
    ]  # fmt: skip


def test_latencies_have_an_average_and_a_maximum() -> None:
    latencies = Latencies()
    assert latencies.summary() == {}
    for value in (3.0, 1.0, 2.0):
        latencies.add(value)
    assert latencies.summary() == {
        "avg": 2.0, "p50": 2.0, "p95": 3.0, "p99": 3.0, "p99.9": 3.0, "max": 3.0,
    }  # fmt: skip


def test_rates_are_per_second() -> None:
    found = rates(100, 1 << 21, 2.0)
    assert (found["records_per_second"], found["mib_per_second"]) == (50.0, 1.0)
    assert rates(0, 0, 0.0)["records_per_second"] == 0.0


def test_figures_have_the_documented_shape() -> None:
    latencies = Latencies()
    latencies.add(1.5)
    found = rates(3, 300, 0.5) | {"latency_ms": latencies.summary()}
    assert list(mismatches(found, OUTPUTS["perf produce"])) == []


def test_values_have_the_size_and_hardly_compress(tmp_path: Path) -> None:
    first, second = islice(payloads(5000, None), 2)
    assert first == second and len(first) == 5000 and len(zlib.compress(first)) > 4900
    file = tmp_path / "values"
    file.write_bytes(b"a\n\nb")
    assert list(islice(payloads(9, file), 3)) == [b"a", b"b", b"a"]
    file.write_bytes(b"\n")
    with pytest.raises(ValueError, match="has no line"):
        next(payloads(9, file))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["produce", "t", "--payload-file", "none"], "No such file"),
        (["end-to-end", "t", "--acks", "0"], "without an acknowledgement"),
        (["latency", "t", "-z", "lzma"], "--compression is one of"),
    ],
)
def test_options_of_a_measurement_are_checked_first(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["perf", *words, "--bootstrap", "localhost:1"]) == 2
    assert sentence in capsys.readouterr().err
