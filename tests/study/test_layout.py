"""How a grid is cut: cells cover it once, and no chunk crosses the border of a cell."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordino.errors import InvalidArgument
from sordino.study import Cell, Layout
from sordino.study.study import Chunks

AXES = {"inits": ("a", "b"), "seeds": (0, 1, 2), "neighbours": (-1, 5), "steps": (7,)}
GOOD = {**AXES, "parameters": 4, "seed_edges": (0, 2, 3), "neighbour_edges": (0, 2)}


def edges(most: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.sets(st.integers(1, most), min_size=1).map(lambda cuts: (0, *sorted(cuts)))


@given(edges(12), edges(12), st.integers(1, 3), st.integers(1, 3))
def test_cells_cover_the_grid_once(seed_edges, neighbour_edges, inits, steps):
    layout = Layout(
        inits=tuple("abc"[:inits]),
        seeds=range(seed_edges[-1]),
        neighbours=range(neighbour_edges[-1]),
        steps=range(steps),
        parameters=2,
        seed_edges=seed_edges,
        neighbour_edges=neighbour_edges,
    )
    covered = np.zeros(layout.shape[:3], dtype=int)
    for number, cell in enumerate(layout.cells()):
        assert cell.number == number
        covered[cell.init, cell.seeds, cell.neighbours] += 1
        assert covered[cell.init, cell.seeds, cell.neighbours].shape == layout.shape_of(cell)[:2]
    assert (covered == 1).all()


@given(edges(12), edges(12))
def test_no_chunk_belongs_to_two_cells(seed_edges, neighbour_edges):
    axes = {"inits": "a", "steps": (1,), "parameters": 1}
    layout = Layout(
        **{**axes, "inits": ("a",)},
        seeds=range(seed_edges[-1]),
        neighbours=range(neighbour_edges[-1]),
        seed_edges=seed_edges,
        neighbour_edges=neighbour_edges,
    )
    chunks = Chunks.__new__(Chunks)  # names need no zarr
    chunks.layout = layout
    owners: dict[str, Cell] = {}
    for cell in layout.cells():
        for names in chunks.names(cell).values():
            for name in names:
                assert owners.setdefault(name, cell) == cell


@pytest.mark.parametrize(
    ("total", "most", "expected"),
    [
        (98, 13, (0, 13, 26, 39, 52, 65, 78, 91, 98)),
        (98, 20, (0, 20, 40, 60, 80, 98)),
        (1000, 400, (0, 334, 668, 1000)),
        (5, 5, (0, 5)),
        (5, 9, (0, 5)),
        (3, 1, (0, 1, 2, 3)),
    ],
)
def test_equal_cells_are_one_chunk_each(total, most, expected):
    layout = Layout.cut(("a",), range(total), range(total), (1,), 1, cell=(most, most))
    assert layout.seed_edges == layout.neighbour_edges == expected
    assert layout.chunk[1] == layout.chunk[2] == expected[1]


def test_other_edges_have_smaller_chunks():
    layout = Layout(**{**GOOD, "seeds": range(25), "seed_edges": (0, 12, 24, 25)})
    assert layout.chunk == (1, 12, 2, 1, 4)
    layout = Layout(**{**GOOD, "seeds": range(25), "seed_edges": (0, 13, 25)})
    assert layout.chunk == (1, 13, 2, 1, 4)
    layout = Layout(**{**GOOD, "seeds": range(37), "seed_edges": (0, 12, 25, 37)})
    assert layout.chunk == (1, 1, 2, 1, 4)


def test_a_large_cell_is_cut_further():
    layout = Layout.cut(("a",), range(10), range(100), range(8), 10**5, cell=(10, 100))
    size = np.prod(layout.chunk) * 4
    assert 2**25 < size <= 2**26
    assert layout.chunk[:3] == (1, 10, 100)


def test_cells_are_told_apart_and_named():
    layout = Layout(**GOOD)
    cells = layout.cells()
    assert len({*cells, *Layout(**GOOD).cells()}) == len(cells) == 4
    assert layout.name(cells[3]) == "cell 3 (init b, seeds 2 to 2, neighbours at 0 to 1)"


def test_it_survives_being_written_down():
    layout = Layout(**GOOD, dtype="float64")
    assert Layout.from_plain(layout.to_plain()) == layout
    assert layout == Layout(**{k: list(v) if isinstance(v, tuple) else v for k, v in GOOD.items()},
                            dtype="float64")  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("inits", value) for value in ((), ("a", "a"), ("a", "b\n"), "ab")),
        *(("seeds", value) for value in ((0, 1, 1), (0, 1, -1), (0, 1, 2**63), 3)),
        *(("neighbours", (-2, 3)), ("steps", ()), ("parameters", 0), ("dtype", "float16")),
        *(("seed_edges", value) for value in ((0, 3, 2), (0, 2), (1, 3))),
        ("neighbour_edges", (0, 0, 2)),
    ],
)
def test_what_is_no_layout_is_refused(name, value):
    with pytest.raises(InvalidArgument, match=r"^Expected ") as refused:
        Layout(**{**GOOD, name: value})
    assert refused.value.argument == name


def test_a_grid_of_too_many_files_is_refused():
    cuts = (0, 1, *range(2, 601))
    with pytest.raises(InvalidArgument, match=r"Layout\.cut"):
        Layout(("a",), range(600), range(600), (1,), 1, seed_edges=cuts, neighbour_edges=cuts)


def test_neighbours_may_replace_the_same_record():
    assert Layout(**{**GOOD, "neighbours": (4, 4)}).neighbours == (4, 4)
