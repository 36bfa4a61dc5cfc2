"""Scripts that complete the command line in bash, zsh and fish, made from the commands themselves.

A script has the names of all commands and options, so that TAB starts no program. Names of topics, groups and
profiles are asked of ``barnabas completion words``, with the options of the line that say where the cluster
is; where it does not answer there are no names.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import typer

from barnabas.cli.application import build
from barnabas.cli.command_table import ANYWHERE, COMMANDS

TOPICS, GROUPS, PROFILES = "topics", "groups", "profiles"
KINDS = (TOPICS, GROUPS, PROFILES)
OPTION_VALUES = {
    "--topic": TOPICS,
    "-t": TOPICS,
    "--group": GROUPS,
    "-g": GROUPS,
    "--profile": PROFILES,
}
ARGUMENT_VALUES = {
    "consume": TOPICS,
    "tail": TOPICS,
    "produce": TOPICS,
    "topics": TOPICS,
    "groups": GROUPS,
}
"""The kind of a command's argument, by its first word; commands that make something new are in `NEW`."""
ARGUMENT_VALUES |= {"profiles": PROFILES}
NEW = frozenset({"topics create", "profiles create"})
WHERE = ("--bootstrap", "--bootstrap-server", "-b", "--data", *ANYWHERE)


class CommandWords(NamedTuple):
    """A command, or a group of them: what may come next."""

    path: str
    words: tuple[str, ...]
    """Names of commands, and options."""
    names: str
    """The kind of names that its arguments are; empty for others."""


def places() -> list[CommandWords]:
    """Every command, the empty path first."""
    return list(_walk((), typer.main.get_command(build(list(COMMANDS)))))


def _walk(path: tuple[str, ...], command: Any) -> Any:
    inner = getattr(command, "commands", {})
    options = [
        option
        for parameter in command.params
        if parameter.param_type_name == "option" and not parameter.hidden
        for option in (*parameter.opts, *parameter.secondary_opts)
        if option.startswith("--")
    ]
    if not inner and path and path[0] not in ("node", "completion"):
        options += [name for name in ANYWHERE if name not in options]
    shown = [name for name, found in inner.items() if not found.hidden]
    text = " ".join(path)
    has_arguments = any(parameter.param_type_name == "argument" for parameter in command.params)
    names = ARGUMENT_VALUES.get(path[0], "") if path and has_arguments and text not in NEW else ""
    yield CommandWords(text, (*shown, *options, "--help"), names)
    for name in shown:
        yield from _walk((*path, name), inner[name])


def script(shell: str) -> str:
    """The script for ``bash``, ``zsh`` or ``fish``."""
    found = places()
    if shell == "fish":
        return _fish(found)
    body = _SHELL.replace("@PATHS@", "|".join(f'"{place.path}"' for place in found if place.path))
    body = body.replace("@WHERE@", "|".join(WHERE)).replace("@WORDS@", _cases(found))
    options = "\n".join(f"        {name}) kind={kind} ;;" for name, kind in OPTION_VALUES.items())
    body = body.replace("@OPTIONS@", options)
    return (_BASH if shell == "bash" else _ZSH).replace("@BODY@", body)


def _cases(found: list[CommandWords]) -> str:
    return "\n".join(
        f'        "{place.path}") choices="{" ".join(place.words)}"; names="{place.names}" ;;'
        for place in found
    )


_SHELL = """\
    local at="" names="" kind="" choices="" word before="" next
    local -a where
    where=()
    for word in "${given[@]}"; do
        case "$before" in @WHERE@) where+=("$before" "$word") ;; esac
        before="$word"
        case "$word" in -*) continue ;; esac
        next="${at:+$at }$word"
        case "$next" in @PATHS@) at="$next" ;; esac
    done
    case "$at" in
@WORDS@
    esac
    case "$before" in
@OPTIONS@
    esac
    case "$current" in -*) kind="" ;; *) kind="${kind:-$names}" ;; esac
    if [ -n "$kind" ]; then
        choices="$(barnabas completion words "$kind" "${where[@]}" 2>/dev/null </dev/null)"
    fi"""

_BASH = """\
# Completion of barnabas for bash: source <(barnabas completion bash)
_barnabas() {
    # The line is cut at spaces only: bash cuts at ':' and '=' as well, which addresses have.
    local line="${COMP_LINE:0:COMP_POINT}" current="" choice
    local -a given
    read -r -a given <<<"$line"
    case "$line" in
        *[[:space:]]) ;;
        *) current="${given[${#given[@]}-1]}"; unset "given[${#given[@]}-1]" ;;
    esac
    given=("${given[@]:1}")
@BODY@
    # What bash replaces is behind the last character at which it cuts.
    local kept="${current%"${COMP_WORDS[COMP_CWORD]}"}"
    case "${COMP_WORDS[COMP_CWORD]}" in :|=) kept="$current" ;; esac
    local -a offered
    read -r -d '' -a offered <<<"$choices"  # words as they are: `compgen -W` would run what they contain
    COMPREPLY=()
    for choice in "${offered[@]}"; do
        case "$choice" in "$current"*) COMPREPLY+=("${choice#"$kept"}") ;; esac
    done
}
complete -o default -F _barnabas barnabas
"""

_ZSH = """\
#compdef barnabas
# Completion of barnabas for zsh: source <(barnabas completion zsh), behind compinit
_barnabas() {
    local current="${words[CURRENT]}"
    local -a given
    given=("${(@)words[2,CURRENT-1]}")
    _barnabas_words
}
_barnabas_words() {
@BODY@
    if [ -n "$choices" ]; then compadd -- ${=choices}; else _files; fi
}
if [ "$funcstack[1]" = "_barnabas" ]; then _barnabas; else compdef _barnabas barnabas; fi
"""

_FISH = """\
# Completion of barnabas for fish: barnabas completion fish | source
function __barnabas_words
    set -l at ""
    set -l names ""
    set -l kind ""
    set -l words
    set -l before ""
    set -l where
    set -l given (commandline -opc)
    set -l current (commandline -ct)
    for word in $given[2..-1]
        switch "$before"
            case @WHERE@
                set -a where $before $word
        end
        set before $word
        if string match -q -- '-*' $word
            continue
        end
        set -l next (string trim "$at $word")
        switch "$next"
            case @PATHS@
                set at $next
        end
    end
    switch "$at"
@WORDS@
    end
    switch "$before"
@OPTIONS@
    end
    if test -z "$kind"
        set kind $names
    end
    if test -n "$kind"; and not string match -q -- '-*' "$current"
        set words (barnabas completion words $kind $where 2>/dev/null </dev/null)
    end
    string join \\n -- $words
end
complete -c barnabas -a '(__barnabas_words)'
"""


def _fish(found: list[CommandWords]) -> str:
    words = "\n".join(
        f"        case '{place.path}'\n            set words {' '.join(place.words)}\n"
        f"            set names '{place.names}'"
        for place in found
    )
    options = "\n".join(
        f"        case {name}\n            set kind {kind}" for name, kind in OPTION_VALUES.items()
    )
    paths = " ".join(f"'{place.path}'" for place in found if place.path)
    body = _FISH.replace("@WHERE@", " ".join(WHERE)).replace("@PATHS@", paths)
    return body.replace("@WORDS@", words).replace("@OPTIONS@", options)
