"""`scripts/size.py` on a planted house whose figures are known."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

SCRIPT = Path(__file__).parents[1] / "scripts" / "size.py"

FIRST = '''"""Said.

More.
"""

# why
from house import b


class Twice:
    """Text."""

    x = 1
'''
SECOND = """
from house.a import Twice as _T

class Twice:
    y = (
        2
    )

def lone():
    return _T
"""


def _size() -> ModuleType:
    spec = importlib.util.spec_from_file_location("size", SCRIPT)
    size = importlib.util.module_from_spec(spec)
    sys.modules["size"] = size
    spec.loader.exec_module(size)
    return size


def test_the_figures_of_a_planted_house(tmp_path: Path) -> None:
    room = tmp_path / "src" / "house"
    room.mkdir(parents=True)
    (room / "__init__.py").write_text("")
    (room / "a.py").write_text(FIRST)
    (room / "b.py").write_text(SECOND)
    (room / "c.py").write_text("from house import b\nprint(b)\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_b.py").write_text("from house.b import lone\n")
    found = _size().measure(tmp_path / "src")
    assert found["code_lines"] == found["code_lines_house"] == 3 + 7 + 2
    assert (found["files"], found["most_files_in_a_folder"]) == (4, 3)
    assert found["classes_defined_twice"] == {"Twice": ["house.a", "house.b"]}
    assert found["module_cycles"] == [["house.a", "house.b"]]
    assert found["only_tests_call"] == {"house.b.lone": 1}
    assert found["one_importer_modules"] == 1
    assert found["public_names"] == 3


def test_the_laws_of_the_house_hold() -> None:
    found = _size().measure(SCRIPT.parents[1] / "src")
    assert found["most_files_in_a_folder"] <= 14
    assert not found["module_cycles"]
    # `Release` and `Summary` are names in the schema of what is on disk.
    assert set(found["classes_defined_twice"]) <= {"Release", "Summary"}
