"""The entry point ``barnabas``: one table of commands, each loaded only when it is asked for.

``barnabas node start FILE`` becomes a node without loading what reads command lines: that would stay in the
node's memory, 10 MB, for as long as it runs. A usual line of ``barnabas up`` is read without it as well: the
nodes are forked from that process.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from barnabas.cli.command_table import ANYWHERE, COMMANDS, CONFIG
from barnabas.cli.failure import Failure
from barnabas.cli.plain_text import say
from barnabas.host.process.standard_streams import (
    drop_output,
    fill_standard_streams,
    replace_what_cannot_be_encoded,
)
from barnabas.host.system import PARENT

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of a standard output that takes no more, such as a file on a full disk."""
INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells count."""
END_WITH_INPUT = "--end-with-input"
"""The option of a node that a program has started, and that ends with the pipe of that program."""


def take_options(given: Sequence[str]) -> list[str]:
    """The arguments without those of `ANYWHERE`, whose values become variables. ``--config FILE`` is
    ``--command-config FILE``; ``--config KEY=VALUE`` is a topic's and stays."""
    left = []
    words = iter(given)
    for word in words:
        name, equals, value = word.partition("=")
        if name not in ANYWHERE:
            left.append(word)
            continue
        value = value if equals else next(words, "")
        if name == CONFIG and "=" in value:
            left += [word] if equals else [word, value]
            continue
        if not value:
            left.append(word)  # typer says what is missing
            continue
        os.environ[ANYWHERE[name]] = value
    return left


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status. Also the console script, which exits with what it returns."""
    fill_standard_streams()
    replace_what_cannot_be_encoded()
    if PARENT in os.environ:
        from barnabas.host.system.processes import end_with_named_parent

        end_with_named_parent()
    given = list(sys.argv[1:] if arguments is None else arguments)
    given = take_options(given)
    wanted = next((word for word in given if not word.startswith("-")), "")
    names = [wanted] if wanted in COMMANDS else list(COMMANDS)
    try:
        if given == ["node", "health"]:  # asked again and again, so it loads little
            from barnabas.cli.local.node_health import print_health

            return print_health("", os.environ)
        if given[:2] == ["node", "start"] and len(given) == 3:
            if given[2] == "--from-environment":
                return _start_node_of_environment()
            if not given[2].startswith("-"):
                return _start_node(given[2])
        if given[:3] == ["node", "start", END_WITH_INPUT] and len(given) == 4:
            return _start_node(given[3], end_with_input=True)
        if given[:1] == ["up"]:
            from barnabas.cli.up.up_line import read_line
            from barnabas.cli.up.up_run import run_up

            options = read_line(given[1:])
            if options is not None:
                return run_up(options)
        from barnabas.cli.application import build

        build(names)(given, prog_name="barnabas")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Failure as failure:
        say(failure, err=True)
        return failure.status
    except BrokenPipeError:
        return 1
    except OSError as error:
        if error.errno not in FULL or error.filename is not None:
            raise
        drop_output()
        say(f"the output cannot be written: {error.strerror}", err=True)
        return 1
    except KeyboardInterrupt:  # while the command was being loaded
        return INTERRUPTED
    return 0


def _start_node(file: str, *, end_with_input: bool = False) -> int:
    from barnabas.cli.local.node_start import start_node

    return start_node(Path(file), end_with_input=end_with_input)


def _start_node_of_environment() -> int:
    from barnabas.cli.local.node_start import start_node_of_environment

    return start_node_of_environment()
