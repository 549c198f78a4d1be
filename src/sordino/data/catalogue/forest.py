"""Covertype: whether a patch of forest is lodgepole pine (label 1) or spruce and fir (label 0)."""

from __future__ import annotations

import numpy as np

from sordino.data import holdout
from sordino.data.catalogue import files, tabular
from sordino.data.catalogue.recipe import Form, Parts, Reader
from sordino.data.catalogue.tabular import ParsedTable
from sordino.data.sources import CorruptFileError, RawFile

FEATURES = 54


def parse(raw: RawFile, content: bytes) -> ParsedTable:
    """Read covtype.data and keep cover types 1 (label 0) and 2 (label 1), the most numerous."""
    frame = tabular.read_csv(raw, content, header=None, dtype=np.int32)
    if frame.shape[1] != FEATURES + 1:
        raise CorruptFileError(raw, f"it has {frame.shape[1]} columns, not {FEATURES + 1}")
    frame.columns = [str(c) for c in frame.columns]
    label = str(FEATURES)
    frame = frame[frame[label].isin([1, 2])]
    y = np.asarray(frame[label] == 2, dtype=np.int64)
    return ParsedTable(frame, y, tuple(c for c in frame.columns if c != label))


def build(read: Reader, form: Form) -> Parts:
    """85 % to train and validate, 15 % to test. The papers' split is random; ours is too, fixed."""
    table = parse(files.COVTYPE, read(files.COVTYPE))
    return tabular.build(table, form, holdout.papers(table.rows, 85, "forest"))
