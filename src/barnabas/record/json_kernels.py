"""Which byte strings are exactly one JSON object, as far as brackets and quotes tell: a compiled loop.

Owns the check before many values are read as lines of one text: a value that is accepted here begins with
``{``, ends with the ``}`` that belongs to it, and has nothing but white space around. Whether what is between
is JSON is the reader's to say.

Source: RFC 8259.
"""

from __future__ import annotations

from barnabas.record.columnar_kernels import Bytes, Ints, compiled, frozen


def mark_objects(data: Bytes, starts: Ints, fine: Bytes, is_json: int) -> None:
    """Set ``fine[row]`` to 1 where ``data[starts[row]:starts[row + 1]]`` is one object; where not `is_json`,
    where it has anything but white space, and every quote is closed."""
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
