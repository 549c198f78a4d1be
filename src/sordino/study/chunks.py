"""The grid as zarr stores it: which files there are, and what is in them.

zarr encodes and decodes, in memory; reading and writing files is left to `disk.py`, so that each is
there whole or not at all, and to `study.py`, so that what is decoded is what was checked.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr
from zarr.abc.buffer import Buffer
from zarr.buffer.cpu import Buffer as CpuBuffer
from zarr.codecs import ZstdCodec
from zarr.errors import ZarrUserWarning
from zarr.storage import MemoryStore

from sordino.study.layout import DIMENSIONS, Cell, Layout

GROUP = "grid.zarr"
STATUSES = ("missing", "done", "failed")
VARIABLES = ("weights", "status")

_AXES = {
    "init": "initial weights: drawn anew for every seed, or shared by all",
    "seed": "number of the seed",
    "neighbour": "record that is replaced; -1 is the dataset itself",
    "step": "training steps",
}
# Flat names: no directories to be made along with a chunk.
_KEYS = {"name": "default", "separator": "."}


class Chunks:
    """The files of a grid of one layout, as names below `GROUP` and bytes."""

    def __init__(self, layout: Layout, address: str) -> None:
        self.layout = layout
        self.skeleton = _skeleton(layout, address)
        """Every file but the chunks of cells: metadata and coordinates."""
        self._statuses: dict[tuple[tuple[int, ...], str], list[bytes]] = {}

    def names(self, cell: Cell) -> dict[str, list[str]]:
        """Files of a cell, for each of `VARIABLES`."""
        chunk = self.layout.chunk
        steps, parameters = self.layout.shape[3:]
        spans = [
            [cell.init],
            _span(cell.seeds, chunk[1]),
            _span(cell.neighbours, chunk[2]),
            _span(slice(0, steps), chunk[3]),
            _span(slice(0, parameters), chunk[4]),
        ]
        return {"weights": _names("weights", spans), "status": _names("status", spans[:3])}

    def encode(self, cell: Cell, weights: npt.NDArray[Any]) -> dict[str, bytes]:
        """Files of the weights of a cell."""
        return self._encode("weights", cell, weights)

    def encode_status(self, cell: Cell, status: str) -> dict[str, bytes]:
        """Files that say the status of a cell."""
        shape = self.layout.shape_of(cell)[:2]
        if (shape, status) not in self._statuses:  # cells of one shape have the same bytes
            files = self._encode("status", cell, np.full(shape, status))
            self._statuses[shape, status] = list(files.values())
        return dict(zip(self.names(cell)["status"], self._statuses[shape, status], strict=True))

    def folders(self) -> list[str]:
        """Directories below `GROUP` that hold these files."""
        return sorted({name.partition("/")[0] for name in self.skeleton if "/" in name})

    def _encode(self, variable: str, cell: Cell, values: npt.NDArray[Any]) -> dict[str, bytes]:
        files = _buffers(self._metadata(variable))
        array = _open(files, variable)
        array[cell.init, cell.seeds, cell.neighbours] = values
        return {name: files[name].to_bytes() for name in self.names(cell)[variable]}

    def decode(self, cell: Cell, files: Mapping[str, bytes]) -> npt.NDArray[Any]:
        """Weights of a cell, from the files `encode` made of them."""
        array = _open(_buffers({**self._metadata("weights"), **files}), "weights")
        return np.asarray(array[cell.init, cell.seeds, cell.neighbours])

    def _metadata(self, variable: str) -> dict[str, bytes]:
        name = f"{variable}/zarr.json"
        return {name: self.skeleton[name]}


def _skeleton(layout: Layout, address: str) -> dict[str, bytes]:
    files: dict[str, Buffer] = {}
    store = MemoryStore(files)
    attributes = {
        "title": "INTERNAL: weights without noise, never to be published",
        "study": address,
    }
    group = zarr.create_group(store, zarr_format=3, attributes=attributes)
    common: dict[str, Any] = {
        "compressors": [ZstdCodec(level=1, checksum=True)],
        "chunk_key_encoding": _KEYS,
    }
    group.create_array(
        "weights",
        shape=layout.shape,
        chunks=layout.chunk,
        dtype=layout.dtype,
        fill_value=float("nan"),
        dimension_names=DIMENSIONS,
        attributes={"long_name": "weights after a number of steps; NaN where there are none"},
        **common,
    )
    group.create_array(
        "status",
        shape=layout.shape[:3],
        chunks=layout.chunk[:3],
        dtype="string",
        fill_value=STATUSES[0],
        dimension_names=DIMENSIONS[:3],
        attributes={"long_name": f"one of {', '.join(STATUSES)}; weights count where it is done"},
        **common,
    )
    labels = (layout.inits, layout.seeds, layout.neighbours, layout.steps)
    for (name, meaning), values in zip(_AXES.items(), labels, strict=True):
        axis = group.create_array(
            name,
            shape=(len(values),),
            chunks=(len(values),),
            dtype="string" if name == "init" else "int64",
            dimension_names=(name,),
            attributes={"long_name": meaning},
            **common,
        )
        axis[:] = np.array(values)
    with warnings.catch_warnings():
        # That other programs may not read it does no harm: all it says is elsewhere as well.
        warnings.simplefilter("ignore", ZarrUserWarning)
        zarr.consolidate_metadata(store, zarr_format=3)
    return {name: files[name].to_bytes() for name in sorted(files)}


def _buffers(files: Mapping[str, bytes]) -> dict[str, Buffer]:
    return {name: CpuBuffer.from_bytes(content) for name, content in files.items()}


def _open(files: dict[str, Buffer], variable: str) -> Any:
    return zarr.open_array(MemoryStore(files), path=variable, mode="r+", zarr_format=3)


def _span(box: slice, size: int) -> list[int]:
    return list(range(box.start // size, -(-box.stop // size)))


def _names(variable: str, spans: Sequence[Sequence[int]]) -> list[str]:
    return [f"{variable}/c.{'.'.join(map(str, place))}" for place in itertools.product(*spans)]
