"""How large the house is: what a reviewer has to read, and what stands twice.

    python scripts/size.py [--json FILE] [ROOT]

Reads the source below ROOT (default: the `src` beside this script) as text; imports nothing of it.
A line of code is a line with a token that is neither a comment nor part of a docstring. A public
name is one that a module defines at its top level without a leading underscore. A function that
only tests call is one whose name no other place in the source mentions; with it stands how many
files of tests mention it.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

SKIPPED = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Module:
    """One file of source: its text, its tree and its dotted name."""

    def __init__(self, path: Path, root: Path) -> None:
        self.path, self.where = path, path.relative_to(root)
        self.text = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text, filename=str(path))
        parts = self.where.with_suffix("").parts
        self.is_package = parts[-1] == "__init__"
        self.name = ".".join(parts[:-1] if self.is_package else parts)

    def code_lines(self) -> int:
        """Lines with a token that is neither a comment nor part of a docstring."""
        lines: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type not in SKIPPED:
                lines.update(range(token.start[0], token.end[0] + 1))
        for node in ast.walk(self.tree):
            if _is_text(node):  # a docstring, or the text below an attribute
                lines.difference_update(range(node.lineno, node.end_lineno + 1))
        return len(lines)

    def definitions(self) -> Iterator[Definition]:
        """Functions and classes at the top level."""
        for node in self.tree.body:
            if isinstance(node, Definition):
                yield node

    def all_definitions(self) -> Iterator[tuple[str, Definition]]:
        """Functions, classes and their methods, each with the name of its owner."""
        for node in self.definitions():
            yield self.name, node
            for inner in node.body if isinstance(node, ast.ClassDef) else []:
                if isinstance(inner, ast.FunctionDef):
                    yield f"{self.name}.{node.name}", inner

    def public_names(self) -> set[str]:
        """Names defined at the top level without a leading underscore."""
        names = {node.name for node in self.definitions()}
        for node in self.tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            if isinstance(node, ast.AnnAssign):
                targets = [node.target]
            for target in targets:
                names.update(part.id for part in ast.walk(target) if isinstance(part, ast.Name))
        return {name for name in names if not name.startswith("_")}

    def imports(self, known: set[str], *, at_load: bool) -> set[str]:
        """Modules of the house that this one imports; with `at_load` only while it loads."""
        found: set[str] = set()
        for node in _loading(self.tree) if at_load else ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    found.add(whole if whole in known else node.module)
        return (found & known) - {self.name}


def _is_text(node: ast.AST) -> bool:
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
        return False
    return isinstance(node.value.value, str)


def _loading(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes that run when the module is imported: not functions, not TYPE_CHECKING."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        yield node
        yield from _loading(node)


def cycles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other in a ring (Tarjan's components)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(imports[name]):
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            ring = []
            while not ring or ring[-1] != name:
                ring.append(stack.pop())
            if len(ring) > 1:
                found.append(sorted(ring))

    sys.setrecursionlimit(10_000)
    for name in sorted(imports):
        if name not in index:
            visit(name)
    return found


def words_of(text: str) -> Counter[str]:
    """How often each identifier stands in the text."""
    return Counter(re.findall(r"[A-Za-z_]\w*", text))


def only_tests_call(modules: list[Module], root: Path) -> dict[str, int]:
    """Functions, classes and methods that the source mentions only where they are defined.

    A name that a package exports in its `__init__` is public and counts as called, and so does one
    that a data file of the source asks for (the claims of the papers name their quantities).
    """
    mentioned: Counter[str] = Counter()
    for module in modules:
        mentioned += words_of(module.text)
    for path in sorted(root.rglob("*.toml")):
        mentioned += words_of(path.read_text(encoding="utf-8"))
    in_tests: Counter[str] = Counter()
    tests = root.parent / "tests"
    for path in sorted(tests.rglob("*.py")) if tests.is_dir() else []:
        in_tests.update(set(words_of(path.read_text(encoding="utf-8"))))
    found = {}
    for module in modules:
        for owner, node in module.all_definitions():
            own = module.text.splitlines()[node.lineno - 1 : node.end_lineno]
            inside = words_of(" ".join(own))[node.name]
            special = node.name.startswith("__") or bool(node.decorator_list)
            if mentioned[node.name] == inside and not special and in_tests[node.name]:
                found[f"{owner}.{node.name}"] = in_tests[node.name]
    return found


def measure(root: Path) -> dict[str, object]:
    """Every figure, flat; lists of names where a person wants to look."""
    modules = [Module(path, root) for path in sorted(root.rglob("*.py"))]
    known = {module.name for module in modules}
    folders: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    classes: defaultdict[str, list[str]] = defaultdict(list)
    importers: Counter[str] = Counter()
    for module in modules:
        folders[module.where.parent.as_posix()] += not module.is_package
        lines[module.where.parts[0]] += module.code_lines()
        for node in module.definitions():
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(module.name)
        importers.update(module.imports(known, at_load=False))
    twice = {name: places for name, places in sorted(classes.items()) if len(places) > 1}
    rings = cycles({module.name: module.imports(known, at_load=True) for module in modules})
    alone = [m.name for m in modules if not m.is_package and importers[m.name] == 1]
    tests_only = only_tests_call(modules, root)
    return {
        "code_lines": sum(lines.values()),
        **{f"code_lines_{package}": count for package, count in sorted(lines.items())},
        "files": len(modules),
        "most_files_in_a_folder": max(folders.values()),
        "folders_above_14": {name: count for name, count in folders.most_common() if count > 14},
        "public_names": sum(len(module.public_names()) for module in modules),
        "classes_defined_twice": twice,
        "module_cycles": rings,
        "one_importer_modules": len(alone),
        "only_tests_call": tests_only,
    }


def main() -> None:
    """Print the figures, or write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parents[1] / "src")
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    arguments = parser.parse_args()
    figures = measure(arguments.root.resolve())
    for name, value in figures.items():
        count = value if isinstance(value, int) else len(value)  # type: ignore[arg-type]
        print(f"{name:32} {count:>8,}")
        if not isinstance(value, int) and value:
            for item in value:  # type: ignore[attr-defined]
                more = f": {value[item]}" if isinstance(value, dict) else ""
                print(f"    {item}{more}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
