"""Our own lint: sizes, docstrings, names, words, what may import what, generated documents.

Exceptions from sizes and private words are in ``tidy_ratchet.json`` and ``words_ratchet.json``; they may
shrink, not grow, and one that is not needed any more must go. ``python tests/test_tidy.py`` writes both
files where they would shrink.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TypeAlias

import pytest

ROOT = Path(__file__).parent.parent
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # a script finds modules beside itself only

from tools.syntax_trees import N, nodes_of, tree_of  # noqa: E402

RATCHET_FILE = Path(__file__).with_name("tidy_ratchet.json")
WORDS_FILE = Path(__file__).with_name("words_ratchet.json")
FOLDERS = ("src", "tests", "tools", "bench")
GENERATED = (
    "src/barnabas/wire/messages/",
    "src/barnabas/metadata/records/",
    "src/barnabas/group/records/",
    "src/barnabas/share/records/",
    "src/barnabas/transaction/records/",
    "src/barnabas/wire/api_table.py",
)

FILE_LINES_MAX = 700
FUNCTION_LINES_MAX = 70
CLASS_METHODS_MAX = 25

TEST_NAME_MAX = 70
"""Characters of the claim that a test's name makes, ``test_`` aside."""

FOLDER_MODULES_MAX = 16
LISTINGS = {
    "messages", "records", "handlers", "checkers", "commands", "tables",
}  # fmt: skip
"""Folders that are tables: one module per entry."""

SAME_CONCEPT = {
    "NewTopic": "a topic that an administrator asks for, in the client and in a policy",
}
"""Public classes of one name in two modules: why."""

PRIVATE_WORDS = {
    r"anew": "again, new, fresh",
    r"whoever": "a client that, a broker that: say which",
    r"nobody": "no client, no replica: say which",
    r"somebody": "a client, a replica: say which",
    r"anybody": "any client, any replica: say which",
    r"(?:is|are|was|were|be|been|being) (?:not |never |to be )*told": "receives, learns",
    r"stands": "is, stays",
    r"gets on": "makes progress",
    r"get on": "make progress",
    r"as it were": "nothing",
    r"goes on": "continues",
    r"go on": "continue",
}
"""Words that only we use, and the field's."""

USES = ("src", "tests", "tools", "bench", "examples", "docs")
"""Where a name counts as used."""
KAFKAS_LISTS = ("src/barnabas/config/", "src/barnabas/wire/errors.py")
"""Kafka's configuration keys and error codes: whole, also where nothing reads one yet."""
CALLED_BY_NAME = ("__", "pytest_")
USED_SOON = {
    "of_address": "the limit of connections per address is read by the quotas that enforce it",
}

BANNED_MODULES = {
    "utils": "the name of what it does",
    "util": "the name of what it does",
    "helpers": "the name of what it helps with",
    "common": "the name of what its users share",
    "misc": "several modules",
    "base": "the name of the contract",
    "manager": "the name of what it owns",
}

PURE = (
    "node", "broker", "controller", "raft", "group", "transaction", "replication", "client",
    "metadata", "log", "record", "config", "wire",
)  # fmt: skip
PURE_MODULES = ("ports.py", "types.py", "limits.py")
WORLD = {
    "asyncio", "socket", "threading", "time", "random", "os", "subprocess", "selectors", "select",
    "signal", "multiprocessing", "concurrent", "pathlib", "shutil", "tempfile", "secrets",
    "datetime", "io",
}  # fmt: skip
"""Whoever imports these reaches the world past the ports."""

BANNED_CALLS = {
    "time.sleep": "a wake-up",
    "print": "the node's log (ports.log)",
}


@cache
def python_files() -> list[str]:
    found = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(GENERATED):
                found.append(name)
    return found


@cache
def parsed(name: str) -> tuple[ast.Module, int]:
    """Tree and number of lines."""
    path = ROOT / name
    return tree_of(path), path.read_bytes().count(b"\n")


def nodes(name: str, *kinds: type[N]) -> Iterator[N]:
    """The nodes of a file that are of exactly one of the classes `kinds`."""
    for kind in kinds:
        yield from nodes_of(ROOT / name, kind)


def functions(name: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    yield from nodes(name, ast.FunctionDef)
    yield from nodes(name, ast.AsyncFunctionDef)


Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
"""Where a statement has others; definitions stand nowhere else."""


def definitions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, Definition]]:
    """Every function and class by its qualified name."""
    for block in BLOCKS:
        for child in getattr(node, block, ()):
            if isinstance(child, Definition):
                yield prefix + child.name, child
                yield from definitions(child, f"{prefix}{child.name}.")
            elif hasattr(child, "body"):
                yield from definitions(child, prefix)


def is_method(item: ast.stmt) -> bool:
    """Of a class: neither dunder nor property, which says what it has rather than does, nor `validate`, which
    asserts its invariants."""
    if not isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    decorators = [ast.unparse(decorator) for decorator in item.decorator_list]
    return (
        not item.name.startswith("__")
        and item.name != "validate"
        and not any(name.endswith(("property", ".setter")) for name in decorators)
    )


@cache
def measured() -> dict[str, int]:
    """Every size above its limit: file, file::function (without its decorators) or file::Class methods."""
    sizes = {}
    for name in python_files():
        tree, lines = parsed(name)
        if lines > FILE_LINES_MAX:
            sizes[f"{name} lines"] = lines
        for qualified, node in definitions(tree):
            if isinstance(node, ast.ClassDef):
                methods = sum(map(is_method, node.body))
                if methods > CLASS_METHODS_MAX:
                    sizes[f"{name}::{node.name} methods"] = methods
            else:
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > FUNCTION_LINES_MAX:
                    sizes[f"{name}::{qualified} lines"] = length
        if name.startswith("src/") and (private := private_access_count(name)):
            sizes[f"{name} private accesses"] = private
    for folder, count in folders().items():
        if count > FOLDER_MODULES_MAX and folder.rpartition("/")[2] not in LISTINGS:
            sizes[f"{folder} modules"] = count
    return sizes


def folders() -> dict[str, int]:
    """How many modules each folder of the sources has, its ``__init__`` aside."""
    found: dict[str, int] = defaultdict(int)
    for name in python_files():
        folder, _, file = name.rpartition("/")
        if name.startswith("src/") and file != "__init__.py":
            found[folder] += 1
    return found


NAMEDTUPLE = {"_replace", "_asdict", "_fields", "_make"}


FOREIGN_PRIVATE = {
    "_jsc": "PySpark has no public way to its JVM's context",
    "_jdf": "PySpark has no public way to its JVM's frame",
    "_PARTITION_EOF": "confluent-kafka has no public name for this code",
    "_current_frames": "CPython documents it by this name",
    "_exit": "os._exit is public",
    "_getframe": "sys._getframe is public",
    "_session_id": "kazoo has no public name for the session",
    "_session_timeout": "kazoo has no public name for the session's time-out",
    "_queue": "kazoo has no public name for what waits to be sent",
}
"""Private names of other people's classes, and why."""


def private_accesses(tree: ast.Module) -> Iterator[ast.Attribute]:
    """`x._name` outside of the class that has `_name`: of parameters, locals and attributes of other objects.
    A class may reach into another object of its own kind; a module may name the methods of its own classes in
    a table."""
    classes = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}

    def walk(node: ast.AST, own: frozenset[str]) -> Iterator[ast.Attribute]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                yield from walk(child, own | members(child))
                continue
            if (
                isinstance(child, ast.Attribute)
                and re.match(r"_[^_]", child.attr)
                and child.attr not in own
                and child.attr not in NAMEDTUPLE
                and child.attr not in FOREIGN_PRIVATE
                and not (
                    isinstance(child.value, ast.Name)
                    and child.value.id in {"self", "cls", *classes}
                )
                and not ast.unparse(child.value).startswith("super(")
            ):
                yield child
            yield from walk(child, own)

    yield from walk(tree, frozenset())


def members(node: ast.ClassDef) -> frozenset[str]:
    """What a class defines: its methods, what it assigns to `self`, and its fields."""
    found = {
        item.name for item in node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    found |= {target.attr for target in assigned(ast.walk(node)) if is_self(target)}
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            found.add(item.target.id)
        elif isinstance(item, ast.Assign):
            found |= {
                n.value
                for n in ast.walk(item.value)
                if isinstance(n, ast.Constant) and isinstance(n.value, str)
            }
    return frozenset(found)


PRIVATE_OF_ANOTHER = re.compile(r"(?<!self)(?<!cls)\._[a-z]")


def private_access_count(name: str) -> int:
    """Trees are walked only of files whose text has such an access at all."""
    if not PRIVATE_OF_ANOTHER.search((ROOT / name).read_text(encoding="utf-8")):
        return 0
    return len(list(private_accesses(parsed(name)[0])))


def ratchet() -> dict[str, int]:
    allowed: dict[str, int] = json.loads(RATCHET_FILE.read_text())
    return allowed


def test_sizes_stay_within_their_limits() -> None:
    allowed = ratchet()
    grown = [
        f"{what}: {size}, allowed are {allowed.get(what, 'fewer')}"
        for what, size in measured().items()
        if size > allowed.get(what, 0)
    ]
    assert not grown, "\n".join(grown)


def test_the_ratchet_only_holds_what_is_needed() -> None:
    sizes = measured()
    loose = [what for what, size in ratchet().items() if sizes.get(what, 0) < size]
    assert not loose, f"shrunk; run `python tests/test_tidy.py`: {loose}"


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_module_says_what_it_is(folder: str) -> None:
    silent = [
        name
        for name in python_files()
        if name.startswith(folder)
        and parsed(name)[0].body
        and len((ast.get_docstring(parsed(name)[0]) or "").split()) < 2
    ]
    assert not silent


def test_names_of_tests_are_no_longer_than_a_claim() -> None:
    long = [
        f"{name}:{node.lineno} {node.name}"
        for name in python_files()
        if name.startswith("tests/")
        for node in functions(name)
        if len(node.name.removeprefix("test_")) > TEST_NAME_MAX
    ]
    assert not long, "\n".join(long)


BANNED_BEGINNINGS = (
    "who", "whose", "whom", "what", "whatever", "whichever", "they", "others",
    "where", "if", "when", "after", "before", "with", "without", "of", "in", "on", "at", "by", "under",
)  # fmt: skip
"""Of the names of tests, whose subject comes first: a broker that, a client that."""


def test_names_of_tests_begin_with_their_subject() -> None:
    wrong = [
        f"{name}:{node.lineno} {node.name}"
        for name in python_files()
        if name.startswith("tests/")
        for node in functions(name)
        if node.name.startswith(tuple(f"test_{word}_" for word in BANNED_BEGINNINGS))
    ]
    assert not wrong, "\n".join(wrong)


BANNED_CONSTANTS = {
    "AT_ONCE", "STEP", "LOOK_MS", "LOOKED", "CHUNK", "ASK_MS", "PATIENCE_MS", "YOUNG", "FORCED", "APART",
    "AHEAD", "LANES", "MANY", "FEW", "MOVED", "ROUNDS", "SEARCHES", "SHOWN", "SIFTED", "TRIES", "WIDEST",
}  # fmt: skip
"""Names that do not say what they bound."""


def test_constants_say_what_they_bound() -> None:
    wrong = [
        f"{name}:{node.lineno} {node.id}"
        for name in python_files()
        if name.startswith("src/barnabas/")
        for node in nodes(name, ast.Name)
        if isinstance(node.ctx, ast.Store) and node.id in BANNED_CONSTANTS
    ]
    assert not wrong, "\n".join(wrong)


def test_public_classes_have_a_name_of_their_own() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for name in python_files():
        if name.startswith("src/barnabas/"):
            for node in parsed(name)[0].body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(name)
    twice = {name: where for name, where in found.items() if len(where) > 1}
    assert twice.keys() == SAME_CONCEPT.keys(), twice


LOG_CALLS = ("log", "_log")


def test_log_events_are_area_and_event() -> None:
    wrong = []
    for name in python_files():
        if not name.startswith("src/barnabas/") or name.startswith("src/barnabas/pipeline/"):
            continue
        for node in nodes(name, ast.Call):
            if len(node.args) == 2:
                called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
                event = node.args[1]
                if (
                    called in LOG_CALLS
                    and isinstance(event, ast.Constant)
                    and not re.fullmatch(r"[a-z]+\.[a-z_0-9]+", str(event.value))
                ):
                    wrong.append(f"{name}:{node.lineno} {event.value!r}")
    assert not wrong, "\n".join(wrong)


KEYS = [re.sub(r"\(.*\)\*?", "", word).strip() for word in PRIVATE_WORDS]
"""What a text with a private word has: a quick look before the exact one."""
WRITTEN = ("src", "tests", "tools", "bench", "examples", "docs")
"""Where people write: names, docstrings, comments, scripts and documents."""
CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def as_words(text: str) -> str:
    """With the words of identifiers apart: `is_told` and `IsTold` are two words each."""
    return CAMEL.sub(" ", text).replace("_", " ")


def written() -> Iterator[Path]:
    """All that people write, but for this file, which has the list."""
    for folder in WRITTEN:
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            if (
                path.suffix in (".py", ".md", ".txt")
                and "node_modules" not in path.parts
                and path != Path(__file__)
                and not name.startswith((*GENERATED, "bench/results/"))
            ):
                yield path
    yield from sorted((ROOT / "bench/results").glob("*.md"))
    yield from sorted(ROOT.glob("*.md"))


@cache
def words() -> dict[str, dict[str, int]]:
    """How often sources, tests and documents have each private word, also within names."""
    found: dict[str, dict[str, int]] = {}
    any_word = re.compile(rf"\b(?:{'|'.join(PRIVATE_WORDS)})\b", re.IGNORECASE)
    for path in written():
        parts = path.relative_to(ROOT).parts
        package = "/".join(parts[:3]) if parts[0] == "src" else parts[0]
        if path.suffix == ".md" and parts[0] in ("docs", path.name):
            package = "documents"
        stem = path.stem.replace("-", " ")
        text = f"{stem} {path.read_text(encoding='utf-8')}"
        lower = text.lower().replace("_", " ")
        if not any(word in lower for word in KEYS):
            continue
        text = as_words(text)
        if not any_word.search(text):
            continue
        for word in PRIVATE_WORDS:
            if count := len(re.findall(rf"\b{word}\b", text, re.IGNORECASE)):
                counts = found.setdefault(package, {})
                counts[word] = counts.get(word, 0) + count
    return found


def test_private_words_do_not_spread() -> None:
    allowed: dict[str, dict[str, int]] = json.loads(WORDS_FILE.read_text())
    more = [
        f"{package}: {count} times {word!r}, allowed are {allowed.get(package, {}).get(word, 0)};"
        f" say {PRIVATE_WORDS[word]}"
        for package, counts in words().items()
        for word, count in counts.items()
        if count > allowed.get(package, {}).get(word, 0)
    ]
    assert not more, "\n".join(more)


def test_the_words_ratchet_only_holds_what_is_needed() -> None:
    allowed: dict[str, dict[str, int]] = json.loads(WORDS_FILE.read_text())
    loose = [
        f"{package}: {word}"
        for package, counts in allowed.items()
        for word, count in counts.items()
        if words().get(package, {}).get(word, 0) < count
    ]
    assert not loose, f"shrunk; run `python tests/test_tidy.py`: {loose}"


@cache
def words_used() -> Counter[str]:
    """How often each identifier occurs in programs and documents."""
    found: Counter[str] = Counter()
    for folder in USES:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".md", ".txt", ".toml") and path.is_file():
                found.update(re.findall(r"[A-Za-z_]\w*", path.read_text("utf-8", "ignore")))
    return found


def defined(name: str, classes: set[str]) -> Iterator[str]:
    """Names that a module and its classes define, but for registrations (decorated) and what a foreign base
    class calls."""
    owners: list[ast.Module | ast.ClassDef] = [parsed(name)[0], *nodes(name, ast.ClassDef)]
    for node in owners:
        bases = node.bases if isinstance(node, ast.ClassDef) else []
        is_foreign = any(ast.unparse(b).partition("[")[0] not in classes for b in bases)
        for item in node.body:
            if isinstance(item, Definition):
                if not item.decorator_list and not is_foreign:
                    yield item.name
            elif isinstance(item, ast.Assign | ast.AnnAssign):
                targets = item.targets if isinstance(item, ast.Assign) else [item.target]
                yield from (target.id for target in targets if isinstance(target, ast.Name))


def test_each_definition_is_used() -> None:
    sources = [name for name in python_files() if name.startswith("src/barnabas/")]
    classes = {node.name for name in sources for node in nodes(name, ast.ClassDef)}
    classes |= {"Protocol", "NamedTuple", "Enum", "IntEnum", "Generic", "ABC"}
    unused = [
        f"{name}: {word}"
        for name in sources
        if not name.startswith(KAFKAS_LISTS)
        for word in defined(name, classes)
        if words_used()[word] == 1 and not word.startswith(CALLED_BY_NAME) and word not in USED_SOON
    ]
    assert not unused, "\n".join(unused)


def test_no_module_has_a_name_that_says_nothing() -> None:
    wrong = [
        f"{name}: call it by {BANNED_MODULES[Path(name).stem]}"
        for name in python_files()
        if Path(name).stem in BANNED_MODULES
    ]
    assert not wrong, "\n".join(wrong)


def is_pure(name: str) -> bool:
    parts = name.split("/")
    if parts[:2] != ["src", "barnabas"] or len(parts) < 3:
        return False
    return parts[2] in PURE or parts[2] in PURE_MODULES


def is_node(name: str) -> bool:
    return is_pure(name) or name.startswith("src/barnabas/host/")


LOG_ROOM = "src/barnabas/log/partition/"
LOG_FILES = {
    LOG_ROOM + "partition_log.py": "PartitionLog",
    LOG_ROOM + "segmented_log.py": "SegmentedLog",
}
LOG_OWNERS = {
    "src/barnabas/log/durability.py": "Durability",
    "src/barnabas/log/state/generations.py": "Generations",
    "src/barnabas/log/state/producer_snapshots.py": "ProducerSnapshots",
}
"""Parts of a PartitionLog that own their fields."""
COUNTED_BY_THE_LOG = "unsynced_messages"
"""The log counts in place, for each batch that it appends."""


def fields_of(files: dict[str, str]) -> set[str]:
    """Every attribute of these classes."""
    found = set()
    for file, owner in files.items():
        for node in parsed(file)[0].body:
            if isinstance(node, ast.ClassDef) and node.name == owner:
                found |= {target.attr for target in assigned(ast.walk(node)) if is_self(target)}
    return found


def assigned(found: Iterable[ast.AST]) -> Iterator[ast.Attribute]:
    """Attributes that are assigned or deleted, also within tuples."""
    for node in found:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            yield node


def is_self(target: ast.Attribute) -> bool:
    return isinstance(target.value, ast.Name) and target.value.id == "self"


def assigned_by_others(fields: set[str], names: Iterable[str]) -> list[str]:
    """By name: `log.x`, `partition.log.x`, `self._log.x`, `logs[name].durability.x`; fields that no other
    class has."""
    names, others = list(names), set[str]()
    of_log = r"(\b|_)logs?(\[.*\])?(\.(durability|generations|snapshots))?$"
    for name in names:
        others |= {t.attr for t in assigned(nodes(name, ast.Attribute)) if is_self(t)}
    return [
        f"{name}:{target.lineno} {ast.unparse(target)}"
        for name in names
        for target in assigned(nodes(name, ast.Attribute))
        if target.attr in fields and not is_self(target)
        and (target.attr not in others or re.search(of_log, ast.unparse(target.value)))
    ]  # fmt: skip


def test_fields_of_a_partition_log_are_assigned_in_its_room_only() -> None:
    fields = fields_of(LOG_FILES)
    sources = [name for name in python_files() if name.startswith("src/barnabas/")]
    wrong = assigned_by_others(fields, (n for n in sources if not n.startswith(LOG_ROOM)))
    assert len(fields) > 15, "the lint does not find the fields"
    assert not wrong, "\n".join(wrong)


def test_parts_of_a_partition_log_assign_their_own_fields() -> None:
    fields = fields_of(LOG_OWNERS)
    sources = [name for name in python_files() if name.startswith("src/barnabas/")]
    wrong = [
        place
        for place in assigned_by_others(fields, (n for n in sources if n not in LOG_OWNERS))
        if not (LOG_ROOM + "partition_log.py" in place and place.endswith(COUNTED_BY_THE_LOG))
    ]
    assert len(fields) > 15, "the lint does not find the fields"
    assert not wrong, "\n".join(wrong)


def imported(name: str) -> Iterator[str]:
    for node in nodes(name, ast.Import):
        yield from (alias.name for alias in node.names)
    for origin in nodes(name, ast.ImportFrom):
        if origin.module and not origin.level:
            yield origin.module


def test_the_node_reaches_the_world_through_its_ports_only() -> None:
    wrong = [
        f"{name} imports {module}"
        for name in filter(is_pure, python_files())
        for module in imported(name)
        if module.partition(".")[0] in WORLD
    ]
    assert not wrong, "\n".join(wrong)


def test_nothing_calls_what_has_a_better_replacement() -> None:
    wrong = []
    for name in filter(is_node, python_files()):
        for node in nodes(name, ast.Call):
            if ast.unparse(node.func) in BANNED_CALLS:
                call = ast.unparse(node.func)
                wrong.append(f"{name}:{node.lineno} {call}: use {BANNED_CALLS[call]}")
    assert not wrong, "\n".join(wrong)


VALIDATING = ("src/barnabas/sim/", "src/barnabas/testing/")
"""Who may ask a machine for its invariants (docs/invariants.md): a running node does not."""


def test_a_running_node_validates_no_machine() -> None:
    wrong = [
        f"{name}:{call.lineno} {ast.unparse(call)}"
        for name in filter(is_node, python_files())
        if not name.startswith(VALIDATING)
        for function in nodes(name, ast.FunctionDef)
        if function.name != "validate"
        for call in ast.walk(function)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "validate"
        and not call.args
    ]
    assert not wrong, "\n".join(wrong)


def test_no_loop_runs_over_a_set() -> None:
    """Order of a set of strings changes from run to run; the node's effects must not."""
    wrong = []
    for name in filter(is_pure, python_files()):
        overs = [loop.iter for loop in nodes(name, ast.For)]
        overs += [loop.iter for loop in nodes(name, ast.comprehension)]
        for over in overs:
            called = isinstance(over, ast.Call) and ast.unparse(over.func) in ("set", "frozenset")
            if called or isinstance(over, ast.Set | ast.SetComp):
                wrong.append(f"{name}:{over.lineno} {ast.unparse(over)}")
    assert not wrong, "\n".join(wrong)


def test_loop_variables_say_what_they_are() -> None:
    """``each`` hides whether a thing is a partition, a task or a file."""
    wrong = []
    for name in (found for found in python_files() if found.startswith(("src/", "tools/"))):
        targets = [loop.target for loop in nodes(name, ast.For)]
        targets += [loop.target for loop in nodes(name, ast.comprehension)]
        for target in targets:
            names = [node for node in ast.walk(target) if isinstance(node, ast.Name)]
            wrong += [f"{name}:{node.lineno}" for node in names if node.id == "each"]
        for scope in nodes(name, ast.Lambda):
            wrong += [f"{name}:{one.lineno}" for one in scope.args.args if one.arg == "each"]
    assert not wrong, "\n".join(wrong)


def test_generated_documents_are_fresh() -> None:
    from tools import docs

    stale = [path for path, text in docs.generated().items() if docs.present(path) != text]
    assert not stale, f"run `make docs`: {stale}"


def write_ratchet() -> int:
    """Let exceptions shrink or go; new ones are written by hand, with a reason in the commit."""
    sizes = measured()
    kept = {what: min(size, sizes[what]) for what, size in ratchet().items() if what in sizes}
    RATCHET_FILE.write_text(json.dumps(dict(sorted(kept.items())), indent=2) + "\n")
    fewer = {}
    for package, allowed in json.loads(WORDS_FILE.read_text()).items():
        present = words().get(package, {})
        left = {
            word: min(count, present[word]) for word, count in allowed.items() if word in present
        }
        if left:
            fewer[package] = left
    WORDS_FILE.write_text(json.dumps(fewer, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(write_ratchet())
