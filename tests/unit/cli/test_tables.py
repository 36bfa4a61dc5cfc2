"""Tables of the commands."""

from __future__ import annotations

import pytest

from barnabas.cli.connection.connect import print_table, table_of


def test_cells_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither names of emoji nor markup are read in them."""
    table = table_of("of [topics]", "fingerprint", "value")
    table.add_row("D6:2B:8B:AB:DC", "[red]x[/red] :ok:")
    print_table(table)
    printed = capsys.readouterr().out
    assert "D6:2B:8B:AB:DC" in printed and "[red]x[/red] :ok:" in printed
    assert "of [topics]" in printed
