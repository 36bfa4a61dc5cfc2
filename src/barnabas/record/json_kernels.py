"""Lays byte strings out as lines, and finds those that look like exactly one JSON object, in compiled loops.

The check precedes a reader that parses many values as the lines of one text. A value that passes begins with
``{``, ends with the matching ``}``, and has only spaces and tabs around it. The reader must still check that
the content is JSON.

Source: RFC 8259.
"""

from __future__ import annotations

import numpy as np

from barnabas.record.columnar_kernels import COMPILED, Bytes, Ints, compiled, frozen


def lay_lines(data: Bytes, starts: Ints, lines: Bytes) -> None:
    """Fill `lines` with the values ``data[starts[row]:starts[row + 1]]``, a newline behind each.

    Line feeds and carriage returns in a value become spaces. `lines` has one byte more than the values for
    each row, so that the line of a row begins at ``starts[row] - starts[0] + row``.
    """
    _lay(frozen(data), frozen(starts), lines)


def mark_objects(lines: Bytes, starts: Ints, fine: Bytes, is_json: int) -> None:
    """Set ``fine[row]`` to 1 where the line that begins at ``starts[row]`` passes; leave others at 0.

    The newline of a line is at ``starts[row + 1] - 1``. With `is_json` 1, a line passes if it looks like one
    JSON object. With 0 (CSV), it passes if it is not blank and has an even number of double quotes.
    """
    _mark(frozen(lines), frozen(starts), fine, is_json)


if COMPILED:

    @compiled
    def _lay(data: Bytes, starts: Ints, lines: Bytes) -> None:
        for row in range(len(starts) - 1):
            begin, size = int(starts[row]), int(starts[row + 1]) - int(starts[row])
            value, line = data[begin : begin + size], lines[begin - starts[0] + row :]
            for at in range(size):
                byte = value[at]
                line[at] = 0x20 if byte == 0x0A or byte == 0x0D else byte
            line[size] = 0x0A

else:

    def _lay(data: Bytes, starts: Ints, lines: Bytes) -> None:
        values = data[starts[0] : starts[-1]]
        rows = len(starts) - 1
        lines[:] = 0x0A
        where = np.arange(len(values)) + np.repeat(np.arange(rows), np.diff(starts))
        lines[where] = np.where((values == 0x0A) | (values == 0x0D), 0x20, values)


@compiled
def _mark(data: Bytes, starts: Ints, fine: Bytes, is_json: int) -> None:
    for row in range(len(fine)):
        position, end = int(starts[row]), int(starts[row + 1]) - 1
        while position < end and (data[position] == 0x20 or data[position] == 0x09):
            position += 1
        while end > position and (data[end - 1] == 0x20 or data[end - 1] == 0x09):
            end -= 1
        if position == end:
            continue
        if is_json == 0:
            quotes = 0
            for at in range(position, end):
                quotes += data[at] == 0x22
            fine[row] = quotes % 2 == 0
            continue
        if data[position] != 0x7B:
            continue
        depth = 0
        in_text = False
        at = position
        while at < end:
            byte = data[at]
            if in_text:
                if byte == 0x5C:
                    at += 1
                elif byte == 0x22:
                    in_text = False
            elif byte == 0x22:
                in_text = True
            elif byte == 0x7B or byte == 0x5B:
                depth += 1
            elif byte == 0x7D or byte == 0x5D:
                depth -= 1
                if depth == 0:
                    break
            at += 1
        if depth == 0 and not in_text and at == end - 1:
            fine[row] = 1
