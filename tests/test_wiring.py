"""Our lint of how objects are put together: constructors name everything that an object calls."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tools.folder_pairs import wrong_imports
from tools.import_circles import sources
from tools.late_callbacks import ALLOWED, faults, late_callbacks
from tools.syntax_trees import nodes_of

LATE = '''
class Owner:
    def build(self, part, device):
        part.ended = lambda: None
        part.heard = partial(print, self)
        part.looks = self.build
        part.on_full = part.other
        part.called = device
        self.part.runs = helper

def helper():
    """A function of the module."""

class Part:
    called: Callable[[], None]
'''
EARLY = '''
class Owner:
    def __init__(self, part, on_end):
        self.on_end = on_end
        self.look = self.build
        part.size = part.count
        part.name = self.name

    @property
    def name(self):
        return ""

    def build(self, part, name):
        part.name = name

def name():
    """A parameter of `build` has this name, too."""
'''


def test_no_modules_import_in_a_circle_and_no_folders_import_each_other() -> None:
    assert wrong_imports() == []


def modules(text: str) -> dict[str, ast.Module]:
    return {"sample": ast.parse(text)}


def test_constructors_name_every_function_that_an_object_calls() -> None:
    assert list(faults(sources(), ALLOWED)) == []


def test_a_function_that_is_set_on_another_object_is_found() -> None:
    found = [target for _, _, target in late_callbacks(modules(LATE))]
    assert found == [
        "part.ended", "part.heard", "part.looks", "part.on_full", "part.called", "self.part.runs",
    ]  # fmt: skip


def test_values_and_fields_of_ones_own_are_no_late_callbacks() -> None:
    assert list(late_callbacks(modules(EARLY))) == []


def test_an_allowed_assignment_that_is_gone_leaves_the_list() -> None:
    (fault,) = faults(modules(EARLY), {"sample: part.ended": "it was there once"})
    assert fault == "sample: part.ended is gone: take it from the list"


SOURCES = Path(__file__).resolve().parents[1] / "src" / "barnabas"
SYSTEM_MODULES = frozenset({"os", "select", "signal", "socket", "fcntl", "time", "libc"})
ONE_SYSTEMS_OWN = re.compile(
    r"E?POLL\w*|e?poll|kqueue|eventfd\w*|pidfd\w*|memfd_create|RWF_\w+|fdatasync|pipe2|SOCK_CLOEXEC"
    r"|SOCK_NONBLOCK|prctl|mallopt|malloc_trim|F_FULLFSYNC|posix_fallocate|sendfile|CLOCK_BOOTTIME"
)
"""Attributes that some systems lack. `barnabas.host.system` has a portable way for each."""


def test_names_of_one_system_are_in_one_place() -> None:
    wrong = []
    for path in SOURCES.rglob("*.py"):
        name = path.relative_to(SOURCES).as_posix()
        if name.startswith(("host/system/", "wire/messages/")):
            continue
        for node in nodes_of(path, ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if owner in SYSTEM_MODULES and ONE_SYSTEMS_OWN.fullmatch(node.attr):
                wrong.append(f"{name}:{node.lineno}: {owner}.{node.attr}")
        for constant in nodes_of(path, ast.Constant):
            if isinstance(constant.value, str) and constant.value.startswith(("/proc/", "/sys/")):
                wrong.append(f"{name}:{constant.lineno}: {constant.value}")
    assert not wrong, "\n".join(wrong)
