"""Finds the byte strings that look like exactly one JSON object, by brackets and quotes, in a compiled loop.

The check precedes a reader that parses many values as the lines of one text. A value that passes begins with
``{``, ends with the matching ``}``, and has only spaces and tabs around it. The reader must still check that
the content is JSON.

Source: RFC 8259.
"""

from __future__ import annotations

from barnabas.record.columnar_kernels import Bytes, Ints, compiled, frozen


def mark_objects(data: Bytes, starts: Ints, fine: Bytes, is_json: int) -> None:
    """Set ``fine[row]`` to 1 where the value ``data[starts[row]:starts[row + 1]]`` passes; leave others at 0.

    With `is_json` 1, a value passes if it looks like one JSON object. With 0 (CSV), it passes if it is not
    blank and has an even number of double quotes.
    """
    _mark(frozen(data), frozen(starts), fine, is_json)


@compiled
def _mark(data: Bytes, starts: Ints, fine: Bytes, is_json: int) -> None:
    for row in range(len(fine)):
        position, end = int(starts[row]), int(starts[row + 1])
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
