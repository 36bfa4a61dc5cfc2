"""The user's own file of profiles, which ``barnabas profiles`` writes and commands read without being asked.

It is a file of client properties as :mod:`barnabas.cli.profiles.named` describes, below
``$XDG_CONFIG_HOME`` or ``~/.config``, and readable by its owner only: mode 600 in a folder of mode 700. A
password is a reference to a file or an environment variable, so that the file has no secret unless a property
with one is set by hand.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from barnabas.cli.local.private_files import write_private
from barnabas.cli.profiles.named import KEY, PREFIX, UnknownProfile, names_of
from barnabas.config.nearest import hint
from barnabas.config.properties import format_properties, parse_properties
from barnabas.config.providers import DIRECTORY, ENVIRONMENT

COMMENT = "Clusters by name; written by `barnabas profiles`."
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
MECHANISMS = {"PLAIN": PLAIN, "SCRAM-SHA-256": SCRAM, "SCRAM-SHA-512": SCRAM}


def own_file() -> Path:
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "barnabas" / "profiles.properties"


def read_own() -> dict[str, str]:
    """The properties of the own file; none where there is no file. Raises ``OSError``, ``ValueError``."""
    try:
        return parse_properties(own_file().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}


def write_own(properties: Mapping[str, str]) -> None:
    """Raises ``OSError``."""
    file = own_file()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(file, format_properties(properties, COMMENT))


def with_profile(
    properties: Mapping[str, str], name: str, given: Mapping[str, str]
) -> dict[str, str]:
    """The properties with the profile `name`, which replaces one of this name. Raises ``ValueError`` for a
    name that no key can have."""
    if not name or not all(char.isalnum() or char in "-_" for char in name):
        raise ValueError(f"the name of a profile has letters, digits, - and _, not {name!r}")
    others = without_profile(properties, name, must_exist=False)
    return others | {f"{PREFIX}{name}.{key}": value for key, value in given.items()}


def without_profile(
    properties: Mapping[str, str], name: str, *, must_exist: bool = True
) -> dict[str, str]:
    """The properties without the profile `name`. Raises `UnknownProfile`."""
    if must_exist:
        check_known(properties, name)
    start = f"{PREFIX}{name}."
    left = {key: value for key, value in properties.items() if not key.startswith(start)}
    if must_exist and left.get(KEY) == name:
        del left[KEY]
    return left


def using(properties: Mapping[str, str], name: str) -> dict[str, str]:
    """The properties with `name` as the profile of commands that name none. Raises `UnknownProfile`."""
    check_known(properties, name)
    return dict(properties) | {KEY: name}


def check_known(properties: Mapping[str, str], name: str) -> None:
    known = names_of(properties)
    if name not in known:
        there = f"there are {', '.join(known)}" if known else "there is none"
        raise UnknownProfile(f"there is no profile {name!r}: {there}{hint(name, known)}")


def _check_password(path: Path) -> None:
    """A directory provider takes the whole text of a file, as Kafka's does. Raises ``ValueError`` for one
    that is no password then."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    if any(char in text for char in b'"\\\n\r'):
        raise ValueError(
            f"{path} has a line feed, a quotation mark or a backslash: a login cannot have those in its"
            " password (write the file by `printf %s`)"
        )


def login_of(
    user: str, mechanism: str, password_file: Path | None, password_variable: str | None
) -> dict[str, str]:
    """The keys of a login by a password, which a file or a variable has; a command asks for it where neither
    does. Raises ``ValueError``."""
    if mechanism not in MECHANISMS:
        raise ValueError(f"--mechanism is one of {', '.join(MECHANISMS)}, not {mechanism!r}")
    if any(char in user for char in '"\\;\n'):
        raise ValueError(
            "the name of a user has no quotation mark, backslash, semicolon or line feed"
        )
    found = {"sasl.mechanism": mechanism}
    password = ""
    if password_file is not None:
        path = password_file.absolute()
        _check_password(path)
        password = f' password="${{dir:{path.parent}:{path.name}}}"'
        found |= {"config.providers": "dir", "config.providers.dir.class": DIRECTORY}
    elif password_variable is not None:
        password = f' password="${{env:{password_variable}}}"'
        found |= {"config.providers": "env", "config.providers.env.class": ENVIRONMENT}
    login = f'{MECHANISMS[mechanism]} required username="{user}"{password};'
    return found | {"sasl.jaas.config": login}
