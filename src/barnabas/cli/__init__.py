"""The command line: ``barnabas COMMAND``.

`main` finds the module of a command and loads no other; each module gives `app` (a group of commands) or
`command` (one). Tables for people, ``--json`` for programs; exit status 0 done, 1 refused or failed with
one sentence, 2 wrong usage.
"""
