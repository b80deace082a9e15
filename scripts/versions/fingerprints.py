"""Fingerprints of the code and definitions that make stored rows and findings, by the version that covers them.

A version is a number in the code. A warehouse stores the number with its rows, and makes the rows again if the number
has risen. So code that makes other rows from the same records needs a higher number. Otherwise an upgraded warehouse
keeps the old rows.

A version covers definitions, and modules in its rooms: its beginnings, and the modules that they import. The
fingerprint of a module leaves out its comments, docstrings and type hints, and the modules from which names are
imported. The fingerprint of a table's definition leaves out its texts.
"""

import ast
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ACCEPTED = Path("scripts") / "versions" / "accepted.json"
PACKAGE = "coordinator_replay"

UNFINGERPRINTED = {
    "audit_runs": "the ledger: a row says what one run did",
    "broker_log": "lines of logs, which are not derived again",
    "control_records": "records of the log, which are not derived again",
    "coordinator_changes": "made of all that the tables have in each run that brings news",
    "group_moves": "a group that turns out to have moved is derived again",
    "group_records": "records of the log, which are not derived again",
    "log_copies": "what each dump had of a log partition",
    "log_partitions": "what each dump had of a log partition",
    "offset_commits": "records of the log, which are not derived again",
    "quarantine": "records of the log, which are not derived again",
    "topics": "made of all that the tables have in each run",
}
"""Tables without a version, each with the reason why it needs none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A version, and the code and definitions that it covers.

    Attributes:
        name: name of the constant with the number.
        module: the module with this constant.
        beginnings: modules that make the rows.
        rooms: packages and modules within which imports are followed.
        tables: tables whose rows the modules make.
        definitions: other files on which the rows depend.
    """

    name: str
    module: str
    beginnings: tuple[str, ...]
    rooms: tuple[str, ...]
    tables: tuple[str, ...] = ()
    definitions: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Return the name of the version in messages."""
        return f"{self.name} of {_path(self.module)}"


VERSIONS = (
    Version(
        name="VERSION",
        module="coordinator_replay.engine.replay",
        beginnings=("coordinator_replay.engine.replay",),
        rooms=("coordinator_replay.engine",),
    ),
    Version(
        name="VERSION",
        module="coordinator_replay.analysis.group_life",
        beginnings=("coordinator_replay.analysis.group_life", "coordinator_replay.pipeline.groups.group_step"),
        rooms=(
            "coordinator_replay.analysis",
            "coordinator_replay.completeness",
            "coordinator_replay.pipeline.groups",
            "coordinator_replay.pipeline.rebalance_pauses",
        ),
        tables=(
            "expiry_rules",
            "group_evidence",
            "group_state",
            "group_timeline",
            "member_timeline",
            "partition_ownership",
            "rebalances",
        ),
    ),
    Version(
        name="OFFSETS_VERSION",
        module="coordinator_replay.pipeline.options",
        beginnings=("coordinator_replay.pipeline.offsets.offset_step", "coordinator_replay.pipeline.offsets.causes"),
        rooms=(
            "coordinator_replay.completeness",
            "coordinator_replay.engine.offsets",
            "coordinator_replay.pipeline.commit_sums",
            "coordinator_replay.pipeline.interval_rows",
            "coordinator_replay.pipeline.offsets",
        ),
        tables=("expired_offsets", "offset_history", "pending_offsets", "removed_offsets"),
    ),
    Version(
        name="VERSION",
        module="coordinator_replay.analysis.findings.rules",
        beginnings=(
            "coordinator_replay.analysis.findings.evaluate",
            "coordinator_replay.analysis.findings.thresholds",
            "coordinator_replay.pipeline.findings.stage",
            "coordinator_replay.pipeline.findings.metrics",
        ),
        rooms=("coordinator_replay.analysis.findings", "coordinator_replay.pipeline.findings"),
        tables=("commit_totals", "findings", "group_metrics"),
        definitions=("schemas/findings/rules.json",),
    ),
)


def _path(module: str) -> str:
    return module.replace(".", "/") + ".py"


def file_of(root: Path, module: str) -> Path | None:
    """Return the file of a module or package; None if there is none."""
    path = root / _path(module)
    package = path.with_suffix("") / "__init__.py"
    return next((file for file in (path, package) if file.is_file()), None)


def covered_modules(root: Path, version: Version) -> list[str]:
    """Return the modules that a version covers, in order.

    Args:
        root: folder of the repository.
        version: the version.
    """
    found: set[str] = set()
    waiting = list(version.beginnings)
    while waiting:
        module = waiting.pop()
        file = file_of(root, module)
        if module in found or file is None:
            continue
        found.add(module)
        names = _imported(file.read_text(encoding="utf-8"))
        waiting += [name for name in names if any(f"{name}.".startswith(f"{room}.") for room in version.rooms)]
    return sorted(found)


@cache
def _imported(text: str) -> Sequence[str]:
    """Return the names of modules that a source may import. For ``from a import b``, these are ``a`` and ``a.b``."""
    names: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{name.name}" for name in node.names)]
    return names


def plain_tree(node: Any) -> Any:
    """Return a syntax tree as plain lists, without parts that can't change a row.

    The result is the same on every version of Python.

    Args:
        node: a node, a list of nodes or a value.
    """
    if isinstance(node, list):
        return [plain_tree(child) for child in node if not _is_text(child)]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return ["import", sorted((name.name.rpartition(".")[2], name.asname or "") for name in node.names)]
    if not isinstance(node, ast.AST):
        return repr(node)
    left_out = {"annotation", "returns", "type_comment", "type_params", "kind"}
    if isinstance(node, ast.AnnAssign):
        # The annotation of a class's field counts: it makes the field.
        left_out.remove("annotation")
    fields = [(name, child) for name, child in ast.iter_fields(node) if name not in left_out]
    return [type(node).__name__, *([name, plain_tree(child)] for name, child in fields if child not in (None, []))]


def _is_text(node: Any) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


@cache
def module_fingerprint(text: str, constant: str | None = None) -> str:
    """Return the fingerprint of a module.

    Args:
        text: source of the module.
        constant: name of the version's constant, which does not count; None if the module has none.
    """
    tree = ast.parse(text)
    tree.body = [node for node in tree.body if constant is None or not _sets(node, constant)]
    return _hash(plain_tree(tree))


def _sets(node: ast.stmt, constant: str) -> bool:
    return isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [constant]


def definition_fingerprint(text: str, *, is_table: bool) -> str:
    """Return the fingerprint of a JSON definition. Texts about a table and its columns do not count."""
    value = json.loads(text)
    return _hash(_without_texts(value) if is_table else value)


def _without_texts(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_texts(child) for name, child in value.items() if name != "about"}
    return [_without_texts(child) for child in value] if isinstance(value, list) else value


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def number_of(root: Path, version: Version) -> int:
    """Return the number that a version has in the code."""
    file = root / _path(version.module)
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and _sets(node, version.name):
            return int(ast.literal_eval(node.value))
    raise LookupError(f"{file} sets no {version.name}")


def fingerprints(root: Path, version: Version) -> dict[str, str]:
    """Return the fingerprint of each file that a version covers.

    Args:
        root: folder of the repository.
        version: the version.
    """
    prints = {}
    for module in covered_modules(root, version):
        file = file_of(root, module)
        if file is not None:
            constant = _constant_in(module)
            prints[file.relative_to(root).as_posix()] = module_fingerprint(file.read_text(encoding="utf-8"), constant)
    tables = [f"schemas/tables/{name}.json" for name in version.tables]
    for path in (*tables, *version.definitions):
        text = (root / path).read_text(encoding="utf-8")
        prints[path] = definition_fingerprint(text, is_table=path in tables)
    return prints


def _constant_in(module: str) -> str | None:
    """Return the name of the version's constant in a module; None if the module has none."""
    return next((version.name for version in VERSIONS if version.module == module), None)


def as_accepted(root: Path, versions: Iterable[Version] = VERSIONS) -> dict[str, Any]:
    """Return the content of the file of accepted fingerprints, for the present tree."""
    return {one.title: {"version": number_of(root, one), "files": fingerprints(root, one)} for one in versions}


class Change(NamedTuple):
    """A difference from the accepted tree, as a clause, and what to do about it, as the rest of the sentence."""

    clause: str
    advice: str


def changes(root: Path) -> list[Change]:
    """Return a change for each version whose number or files differ from the accepted ones."""
    accepted = json.loads((root / ACCEPTED).read_text(encoding="utf-8"))
    return [found for one in VERSIONS if (found := _change(root, one, accepted.get(one.title, {}))) is not None]


def complaints(root: Path) -> list[str]:
    """Return a sentence for each version whose number or files differ from the accepted ones."""
    return ["".join(change) for change in changes(root)]


def _change(root: Path, version: Version, accepted: Mapping[str, Any]) -> Change | None:
    number, files = number_of(root, version), fingerprints(root, version)
    before = accepted.get("files", {})
    changed = sorted(path for path in before.keys() | files.keys() if before.get(path) != files.get(path))
    if number == accepted.get("version") and not changed:
        return None
    accept = "scripts/accept-versions"
    if number != accepted.get("version"):
        return Change(f"{version.title} is {number} now", f": run {accept}.")
    return Change(
        f"{version.title} covers {', '.join(changed)}, which changed",
        ". Raise it if the same records may lead to other rows, findings or snapshots now. Then, or if they can't, "
        f"run {accept}.",
    )
