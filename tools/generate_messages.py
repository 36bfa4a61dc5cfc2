"""Write the protocol's message classes from Kafka's message definitions.

Usage: ``python tools/generate_messages.py LIBS_DIR CLIENTS_3_9`` where LIBS_DIR holds Apache Kafka's jars
(``make peers`` brings them; ``make messages`` runs this and formats what it wrote) and CLIENTS_3_9 is
``kafka-clients-3.9.1.jar``, for the messages of ZooKeeper mode that Kafka 4 no longer has. Takes names,
types, versions, tags and defaults, nothing else.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

SRC = Path(__file__).resolve().parent.parent / "src" / "barnabas"
FOREVER = 32767
SCALARS = {
    "bool": "bool", "int8": "int", "int16": "int", "uint16": "int", "int32": "int",
    "uint32": "int", "int64": "int", "float64": "float", "string": "str", "uuid": "Uuid",
    "bytes": "bytes", "records": "Records",
}  # fmt: skip
SPECIFIERS = {
    "bool_", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64", "string", "uuid",
    "bytes_", "records", "struct", "array",
}  # fmt: skip
"""The functions of `barnabas.wire.schema` that declare a field."""
JARS = {
    "kafka-clients": "wire/messages",
    "kafka-metadata": "metadata/records",
    "kafka-group-coordinator": "group/records",
    "kafka-share-coordinator": "share/records",
    "kafka-transaction-coordinator": "transaction/records",
    "kafka-storage": "wire/messages",
}
OF_ZOOKEEPER_MODE = re.compile(
    r"common/message/(ControlledShutdown|LeaderAndIsr|StopReplica|UpdateMetadata)\w+\.json"
)
"""Messages that Kafka 3.9 has and Kafka 4 lacks; they go into a package of their own."""
KAFKA_39_PACKAGE = "kafka39"
SKIPPED = re.compile(r"AbortedTxn|Remote(LogSegment|Partition)")

# Tagged fields that only Barnabas has; Kafka skips tags that it does not know. First, on metadata records.
REASON = {"name": "Reason", "type": "string", "versions": "0+", "nullableVersions": "0+",
          "taggedVersions": "0+", "tag": 10000, "default": "null", "ignorable": True}  # fmt: skip
RECOVERY = {"name": "QuorumRecovery", "type": "string", "versions": "0+", "nullableVersions": "0+",
            "taggedVersions": "0+", "tag": 10001, "default": "null", "ignorable": True}  # fmt: skip
EXTRA: dict[str, list[dict[str, Any]]] = {
    name: [REASON]
    for name in ("PartitionRecord", "PartitionChangeRecord", "BrokerRegistrationChangeRecord",
                 "RegisterBrokerRecord", "UnregisterBrokerRecord", "FenceBrokerRecord",
                 "UnfenceBrokerRecord", "RemoveTopicRecord", "ConfigRecord", "FeatureLevelRecord")
}  # fmt: skip
EXTRA["LeaderChangeMessage"] = [RECOVERY]
REGISTERED = {"name": "RegisteredMs", "type": "int64", "versions": "0+", "taggedVersions": "0+",
              "tag": 10001, "default": "-1", "ignorable": True}  # fmt: skip
for name in ("RegisterBrokerRecord", "RegisterControllerRecord"):
    EXTRA[name] = [*EXTRA.get(name, []), REGISTERED]

# On DescribeCluster, for clients that ask for it: a controller's refusals, metrics, events and states of
# partitions; the metrics that clients pushed to a broker (KIP-714).
EXTRA["DescribeClusterRequest"] = [
    {"name": "RefusalsAfter", "type": "int64", "versions": "0+", "taggedVersions": "0+",
     "tag": 10000, "default": "-2", "ignorable": True},
    {"name": "IncludeMetrics", "type": "bool", "versions": "0+", "taggedVersions": "0+",
     "tag": 10001, "default": "false", "ignorable": True},
    {"name": "IncludeClientMetrics", "type": "bool", "versions": "0+", "taggedVersions": "0+",
     "tag": 10002, "default": "false", "ignorable": True},
    {"name": "EventsAfter", "type": "int64", "versions": "0+", "taggedVersions": "0+",
     "tag": 10003, "default": "-2", "ignorable": True},
    {"name": "StatesOf", "type": "[]string", "versions": "0+", "taggedVersions": "0+",
     "tag": 10004, "ignorable": True}]  # fmt: skip
EXTRA["DescribeClusterResponse"] = [
    {"name": "Refusals", "type": "[]ControllerRefusal", "versions": "0+", "taggedVersions": "0+",
     "tag": 10000, "ignorable": True, "fields": [
         {"name": "Number", "type": "int64", "versions": "0+"},
         {"name": "AtMs", "type": "int64", "versions": "0+"},
         {"name": "Subject", "type": "string", "versions": "0+"},
         {"name": "Code", "type": "string", "versions": "0+"},
         {"name": "Reason", "type": "string", "versions": "0+"}]},
    {"name": "Metrics", "type": "[]ControllerMetric", "versions": "0+", "taggedVersions": "0+",
     "tag": 10001, "ignorable": True, "fields": [
         {"name": "Name", "type": "string", "versions": "0+"},
         {"name": "Value", "type": "int64", "versions": "0+"}]},
    {"name": "ClientMetrics", "type": "[]PushedMetrics", "versions": "0+", "taggedVersions": "0+",
     "tag": 10002, "ignorable": True, "fields": [
         {"name": "ClientInstanceId", "type": "uuid", "versions": "0+"},
         {"name": "ClientId", "type": "string", "versions": "0+"},
         {"name": "Software", "type": "string", "versions": "0+"},
         {"name": "Address", "type": "string", "versions": "0+"},
         {"name": "AtMs", "type": "int64", "versions": "0+"},
         {"name": "PushIntervalMs", "type": "int32", "versions": "0+"},
         {"name": "Terminating", "type": "bool", "versions": "0+"},
         {"name": "Metrics", "type": "bytes", "versions": "0+"}]},
    {"name": "Events", "type": "[]ControllerEvent", "versions": "0+", "taggedVersions": "0+",
     "tag": 10003, "ignorable": True, "fields": [
         {"name": "Number", "type": "int64", "versions": "0+"},
         {"name": "AtMs", "type": "int64", "versions": "0+"},
         {"name": "Kind", "type": "string", "versions": "0+"},
         {"name": "Subject", "type": "string", "versions": "0+"},
         {"name": "Change", "type": "string", "versions": "0+"},
         {"name": "Reason", "type": "string", "versions": "0+"}]},
    {"name": "States", "type": "[]SubjectState", "versions": "0+", "taggedVersions": "0+",
     "tag": 10004, "ignorable": True, "fields": [
         {"name": "Topic", "type": "string", "versions": "0+"},
         {"name": "Partition", "type": "int32", "versions": "0+"},
         {"name": "Replica", "type": "int32", "versions": "0+"},
         {"name": "State", "type": "string", "versions": "0+"},
         {"name": "Reason", "type": "string", "versions": "0+"},
         {"name": "AtMs", "type": "int64", "versions": "0+"}]}]  # fmt: skip

# On DescribeQuorum, for clients that ask for it: the metrics of the quorum's leader.
EXTRA["DescribeQuorumRequest"] = [
    {"name": "IncludeMetrics", "type": "bool", "versions": "0+", "taggedVersions": "0+",
     "tag": 10000, "default": "false", "ignorable": True}]  # fmt: skip
EXTRA["DescribeQuorumResponse"] = [
    {"name": "Metrics", "type": "[]QuorumMetric", "versions": "0+", "taggedVersions": "0+",
     "tag": 10000, "ignorable": True, "fields": [
         {"name": "Name", "type": "string", "versions": "0+"},
         {"name": "Value", "type": "string", "versions": "0+"}]}]  # fmt: skip

# On DescribeLogDirs: why a directory is offline; Kafka's response has an error code only.
EXTRA["DescribeLogDirsResponse"] = [
    {"name": "OfflineReasons", "type": "[]OfflineLogDir", "versions": "2+", "taggedVersions": "2+",
     "tag": 10000, "ignorable": True, "fields": [
         {"name": "LogDir", "type": "string", "versions": "2+"},
         {"name": "Reason", "type": "string", "versions": "2+"}]}]  # fmt: skip

DROPPED = {("ElectLeadersResponse", "ErrorCode")}
"""(message, field): versions without the field drop its value, though Kafka's definition does not call the
field ignorable. Version 0 has the same error per partition."""


def snake(name: str) -> str:
    """The Python name of a field of Kafka: ``TopicId`` gives ``topic_id``, a keyword gets an underscore."""
    text = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    text = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", text).lower()
    return text + "_" if text in {"from", "global", "import", "is", "class"} else text


def module_name(name: str) -> str:
    return snake(name)


def versions(text: str | None) -> tuple[int, int]:
    """(first, last) of a range as Kafka writes it: ``0-3``, ``2+``, ``5``; ``none`` is (0, -1)."""
    if not text or text == "none":
        return (0, -1)
    if text.endswith("+"):
        return (int(text[:-1]), FOREVER)
    low, _, high = text.partition("-")
    return (int(low), int(high or low))


def show(found: tuple[int, int]) -> str:
    """A range of versions as the generated module writes it."""
    return f"({found[0]}, {'FOREVER' if found[1] == FOREVER else found[1]})"


def span(found: tuple[int, int], until: int) -> str:
    """A range as an argument: its first version alone where it lasts as long as the field."""
    return str(found[0]) if found[1] == until else show(found)


class Module:
    """One generated module: a message and its structures, innermost first."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.classes: list[str] = []
        self.names: set[str] = set()
        """What the lines of its fields name."""
        self.common = {s["name"]: s for s in spec.get("commonStructs", [])}
        self.done: set[str] = set()

    def render(self) -> str:
        spec = self.spec
        top = dict(spec, fields=spec.get("fields", []) + EXTRA.get(spec["name"], []))
        self.emit(top, toplevel=True)
        lines = ["from __future__ import annotations", ""]
        if "Sequence" in self.names:
            lines += ["from collections.abc import Sequence", ""]
        types = sorted(self.names & {"Records", "Uuid", "ZERO_UUID"})
        if types:
            lines.append(f"from barnabas.types import {', '.join(types)}")
        schema = {"Message"} | self.names & SPECIFIERS
        if any("FOREVER" in text for text in self.classes):
            schema.add("FOREVER")
        lines.append(f"from barnabas.wire.schema import {', '.join(sorted(schema))}")
        head = f'"""{spec["name"]}: generated by tools/generate_messages.py; do not edit."""'
        return "\n".join([head, "", *lines, "", "", "\n\n".join(self.classes)])

    def emit(self, struct: dict[str, Any], toplevel: bool = False) -> None:
        """Append the class of one structure to `classes`, after those of the structures in it."""
        name = struct["name"] if toplevel else struct["class"]
        if name in self.done:
            return
        self.done.add(name)
        lines = [f"class {name}(Message):"]
        if toplevel:
            lines.append(f"    VALID = {show(versions(struct['validVersions']))}")
            flexible = versions(struct.get("flexibleVersions"))
            lines.append(f"    FLEXIBLE = {flexible[0] if flexible[1] >= 0 else 'FOREVER'}")
            if struct.get("apiKey") is not None:
                lines.append(f"    API_KEY = {struct['apiKey']}")
        lines += [f"    {self.field(field)}" for field in struct.get("fields", [])]
        self.classes.append("\n".join([*lines, *["    pass"][len(lines) - 1 :]]) + "\n")

    def field(self, field: dict[str, Any]) -> str:
        """One field's line: its name, its type, and the call that declares it."""
        kind: str = field["type"]
        is_array = kind.startswith("[]")
        element = kind.removeprefix("[]")
        annotation = SCALARS.get(element, element)
        if element not in SCALARS:
            spec = self.common.get(element) or {"fields": field.get("fields", [])}
            self.emit(dict(spec, **{"class": element}))
        self.names.add(annotation)
        specifier = {"bool": "bool_", "bytes": "bytes_"}.get(element, element)
        arguments = []
        if is_array or element not in SCALARS:
            arguments.append(specifier)
            specifier = "array" if is_array else "struct"
            self.names.add(arguments[0])
        self.names.add(specifier)
        if is_array:
            annotation = f"Sequence[{annotation}]"
            self.names.add("Sequence")
        default = self.default(field, is_array, element)
        since, until = versions(field.get("versions") or field.get("taggedVersions", "0+"))
        arguments += [str(since)] + ([str(until)] if until != FOREVER else [])
        nullable = versions(field.get("nullableVersions"))
        if nullable[1] >= 0:
            arguments.append(f"nullable={span(nullable, until)}")
        if nullable[1] >= 0 or default == "default=None":
            annotation += " | None"
        if "tag" in field:
            arguments.append(f"tag={field['tag']}")
            tagged = versions(field["taggedVersions"])
            if tagged != (since, until):
                arguments.append(f"tagged={span(tagged, until)}")
        arguments.append(default)
        self.names.add(default.partition("=")[2])
        if field.get("ignorable") or (self.spec["name"], field["name"]) in DROPPED:
            arguments.append("ignorable=True")
        if field.get("flexibleVersions") == "none":
            arguments.append("flexible=False")
        return f"{snake(field['name'])}: {annotation} = {specifier}({', '.join(arguments)})"

    def default(self, field: dict[str, Any], is_array: bool, element: str) -> str:
        """The argument that gives the field's default."""
        raw = field.get("default")
        if raw == "null" or (element == "records" and not is_array):
            return "default=None"
        if is_array:
            return "default=()"
        if element not in SCALARS:
            return f"default_factory={element}"
        if element == "string":
            return "default=" + repr(raw or "").replace("'", '"')
        if element == "bytes":
            return 'default=b""'
        if element == "uuid":
            return "default=ZERO_UUID"
        if element == "bool":
            return f"default={str(raw).lower() == 'true'}"
        if element == "float64":
            return f"default={float(raw or 0)!r}"
        return f"default={int(str(raw), 0) if raw not in (None, '') else 0}"


def load(text: str) -> dict[str, Any]:
    """Parse a message definition: JSON with comments that begin with ``//``."""
    lines = [re.sub(r"(^|\s)//.*$", "", line) for line in text.splitlines()]
    spec: dict[str, Any] = json.loads("\n".join(lines))
    return spec


def main(libs: Path, clients_39: Path) -> None:
    apis: dict[int, dict[str, Any]] = {}
    write_kafka_39(clients_39, apis)
    records: dict[str, list[tuple[int, str, str]]] = {}
    for jar, target in JARS.items():
        folder = SRC / target
        folder.mkdir(parents=True, exist_ok=True)
        path = next(p for p in sorted(libs.glob(f"{jar}-[0-9]*.jar")))
        with zipfile.ZipFile(path) as archive:
            for entry in sorted(n for n in archive.namelist() if n.endswith(".json")):
                spec = load(archive.read(entry).decode())
                if SKIPPED.search(spec["name"]):
                    continue
                if "fields" not in spec and "validVersions" not in spec:
                    continue
                if spec["validVersions"] == "none" and spec["type"] in ("request", "response"):
                    continue
                (folder / f"{module_name(spec['name'])}.py").write_text(Module(spec).render())
                if spec["type"] in ("request", "response"):
                    apis.setdefault(spec["apiKey"], {})[spec["type"]] = spec
                elif spec.get("apiKey") is not None and target != "wire/messages":
                    records.setdefault(target, []).append(
                        (spec["apiKey"], module_name(spec["name"]), spec["name"])
                    )
    write_table(apis)
    for target, rows in records.items():
        write_records_index(SRC / target / "index.py", target, sorted(rows))


def write_kafka_39(clients_39: Path, apis: dict[int, dict[str, Any]]) -> None:
    folder = SRC / "wire" / "messages" / KAFKA_39_PACKAGE
    folder.mkdir(parents=True, exist_ok=True)
    head = "Messages of Kafka 3.9 that Kafka 4 no longer has: the controller's commands to brokers."
    (folder / "__init__.py").write_text(f'"""{head}"""\n')
    with zipfile.ZipFile(clients_39) as archive:
        for entry in sorted(filter(OF_ZOOKEEPER_MODE.fullmatch, archive.namelist())):
            spec = load(archive.read(entry).decode())
            (folder / f"{module_name(spec['name'])}.py").write_text(Module(spec).render())
            spec["package"] = f"{KAFKA_39_PACKAGE}."
            apis.setdefault(spec["apiKey"], {})[spec["type"]] = spec


def write_table(apis: dict[int, dict[str, Any]]) -> None:
    lines = ['"""Every API of the protocol; generated by tools/generate_messages.py; do not edit."""', "",
             "from __future__ import annotations", "", "from enum import IntEnum",
             "from typing import NamedTuple", "", "", "class ApiKey(IntEnum):"]  # fmt: skip
    rows = []
    for key, pair in sorted(apis.items()):
        request, response = pair["request"], pair["response"]
        const = snake(request["name"].removesuffix("Request")).upper()
        lines.append(f"    {const} = {key}")
        low, high = versions(request["validVersions"])
        stable = high - 1 if request.get("latestVersionUnstable") else high
        flexible = versions(request.get("flexibleVersions"))
        flex = flexible[0] if flexible[1] >= 0 else 32767
        listeners = ", ".join(f'"{x}"' for x in request.get("listeners", [])) + ","
        shown = listeners if request.get("listeners") else ""
        name = request["name"].removesuffix("Request")
        at = request.get("package", "")
        modules = f'"{at}{module_name(request["name"])}", "{at}{module_name(response["name"])}"'
        rows.append(
            f'    {key}: ApiSchema({key}, "{name}", {low}, {high}, {stable}, {flex}, ({shown}), {modules}),'
        )
    lines += ["", "", "class ApiSchema(NamedTuple):",
              "    key: int", "    name: str", "    min_version: int", "    max_version: int",
              "    max_stable_version: int", "    first_flexible: int", "    listeners: tuple[str, ...]",
              "    request_module: str", "    response_module: str", "", "",
              "API_SCHEMAS: dict[int, ApiSchema] = {", *rows, "}", ""]  # fmt: skip
    (SRC / "wire" / "api_table.py").write_text("\n".join(lines))


def write_records_index(path: Path, target: str, rows: list[tuple[int, str, str]]) -> None:
    package = "barnabas." + target.replace("/", ".")
    head = f"Record types of {package}; generated by tools/generate_messages.py; do not edit."
    lines = [f'"""{head}"""', "", "from __future__ import annotations", "",
             "RECORD_MODULES: dict[int, list[tuple[str, str]]] = {"]  # fmt: skip
    by_key: dict[int, list[tuple[str, str]]] = {}
    for key, module, name in rows:
        by_key.setdefault(key, []).append((f"{package}.{module}", name))
    for key, entries in sorted(by_key.items()):
        shown = ", ".join(f'("{m}", "{n}")' for m, n in entries)
        lines.append(f"    {key}: [{shown}],")
    lines += ["}", ""]
    path.write_text("\n".join(lines))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
