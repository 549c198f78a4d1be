"""From a CSV or Parquet file to a pandas table, or one sentence about what is wrong with it.

The first line of a file that lacks a header is a record, and after a quote that is left open the
whole table is one name. So no sentence and no certificate holds a name because it stands in the
file: columns are told by their place, and by their name only where a public description or whoever
asks has named them. What looks like no header at all is refused.

What counts as missing is a rule about single cells, so it tells nothing of other rows: an empty
cell, or one of the usual marks (NA, NaN, null, ...) unless the column's words are known to us.
Sentences tell places, never what a cell or the first line holds.
"""

from __future__ import annotations

import contextlib
import csv
import difflib
import gzip
import importlib
import importlib.metadata
import io
import math
import os
import re
import signal
import threading
import warnings
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sordino import _files, checks
from sordino.data.sources import DataError
from sordino.errors import printable

if TYPE_CHECKING:
    import pandas as pd

_PARQUET_ENDINGS = (".parquet", ".pq")
ENDINGS = (".csv", ".csv.gz", *_PARQUET_ENDINGS)
MISSING = (
    *("", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "<NA>"),
    *("#N/A", "#NA", "-nan", "-NaN"),
)
"""Cells that hold nothing, where the column's words are not given."""

_SEPARATORS = (",", ";", "\t")
_WHOLE = re.compile(r"\s*\d+\s*", re.ASCII)
_ZERO_IN_FRONT = re.compile(r"\s*0\d+\s*", re.ASCII)
_UNPARSED = "has a header that cannot be parsed (a quote left open?)."
_SHOWN = 60
_COUNTED = 3
_WORD = re.compile(r"[^\W\d]\w*")
_NOT_PRINTED = "Names that are not public are not printed: see the file's first line."


def check_path(path: str | Path) -> Path:
    """Return the path of a table that could be read; a usage error otherwise."""
    path = Path(path)
    name = path.name.lower()
    if os.path.isdir(path):
        checks.fail("data", path, "to be a file, not a directory")
    if not name.endswith(ENDINGS):
        sheet = name.endswith((".xlsx", ".xls", ".ods"))
        checks.fail("data", path, f"to end in {', '.join(ENDINGS)}", "Save it as CSV." * sheet)
    if not os.path.lexists(path):
        checks.fail("data", path, "to exist")
    with _files.explained("data", path, "read"), _files.opened(path):
        pass  # pandas would wait for a pipe
    if is_parquet(path):
        check_pyarrow("data", path, "read")
    return path


def check_pyarrow(argument: str, path: Path, verb: str) -> None:
    """Refuse a Parquet file where nothing is here to read or write it safely."""
    try:
        version = importlib.metadata.version("pyarrow")
    except importlib.metadata.PackageNotFoundError:
        checks.fail(argument, path, f"to have pyarrow to {verb} it", "pip install pyarrow.")
    # Before this version opening a file could run code that it carries (CVE-2023-47248).
    if tuple(int(part) for part in version.split(".")[:3] if part.isdigit()) < (14, 0, 1):
        checks.fail("pyarrow", version, ">= 14.0.1, for safety", "pip install -U pyarrow.")


def names(path: str | Path, declared: Collection[str] = ()) -> list[str]:
    """Names of the columns, in order and without blanks around them; "" where there is none.

    Names that are `declared` public may be strange; of others it is asked whether they are names.
    """
    path = check_path(path)
    with _sentences(path):
        if is_parquet(path):
            stored = [str(name).strip() for name in _parquet_file(path).schema_arrow.names]
            # So does pyarrow store the row numbers of a pandas table.
            index = re.compile(r"__index_level_\d+__")
            found = ["" if index.fullmatch(name) else name for name in stored]
        else:
            found = _header(path)[0]
    check_names(path, found, declared)
    return found


def read(
    path: str | Path, found: Sequence[str], *, words: Collection[str], leave_out: Collection[str]
) -> pd.DataFrame:
    """Read the columns that have a name; pandas and R write row numbers without one.

    Parameters
    ----------
    path
        A file that `check_path` accepts.
    found
        Its `names`.
    words
        Columns whose cells are text as it stands there, "007" and "NA" too.
    leave_out
        Columns that are not wanted.
    """
    path = check_path(path)
    wanted = [i for i, name in enumerate(found) if name and name not in leave_out]
    with _sentences(path):
        if is_parquet(path):
            # Column by column: what pandas noted in the file about its index does not concern us.
            table = _parquet_file(path).read().select(wanted)
            frame: pd.DataFrame = table.to_pandas(ignore_metadata=True)
        else:
            frame = _csv(path, wanted, [i for i in wanted if found[i] in words])
    if not len(frame):
        raise DataError(f"{path} has no rows.")
    return frame.set_axis([found[i] for i in wanted], axis=1)


def blocks(
    path: str | Path,
    found: Sequence[str],
    *,
    words: Collection[str],
    leave_out: Collection[str],
    rows: int,
) -> Iterator[pd.DataFrame]:
    """Read as `read` does, so many rows at a time, in the order of the file.

    What a column holds is told from each block alone: whole numbers in one, others in the next.
    """
    path = check_path(path)
    wanted = [i for i, name in enumerate(found) if name and name not in leave_out]
    texts = [i for i in wanted if found[i] in words]
    parts = (_parquet_blocks if is_parquet(path) else _csv_blocks)(path, wanted, texts, rows)
    count = 0
    while True:
        with _sentences(path):
            part = next(parts, None)
        if part is None:
            break
        if len(part):
            count += len(part)
            yield part.set_axis([found[i] for i in wanted], axis=1)
    if not count:
        raise DataError(f"{path} has no rows.")


def _parquet_blocks(
    path: Path, wanted: list[int], words: list[int], rows: int
) -> Iterator[pd.DataFrame]:
    arrow = importlib.import_module("pyarrow")
    for batch in _parquet_file(path).iter_batches(batch_size=rows):
        table = arrow.Table.from_batches([batch])
        part = table.select(wanted).to_pandas(ignore_metadata=True)
        part = part.set_axis(wanted, axis=1)
        # Beside an empty cell long whole numbers would lose digits as floats.
        exact = table.select(words).to_pandas(ignore_metadata=True, integer_object_nulls=True)
        for place, name in enumerate(words):
            part[name] = exact.iloc[:, place]
        yield part


def _csv_blocks(
    path: Path, wanted: list[int], words: list[int], rows: int
) -> Iterator[pd.DataFrame]:
    import pandas as pd

    with pd.read_csv(path, chunksize=rows, **_csv_options(path, wanted, words)) as reader:
        while True:
            with _parsing(path):
                part = next(reader, None)
            if part is None:
                return
            yield part[wanted]


def zeros_in_front(path: str | Path, found: Sequence[str]) -> set[str]:
    """Names of the columns of a CSV file that hold whole numbers such as 007, in its first rows.

    As numbers they lose the zeros, and are likely no numbers.
    """
    path = check_path(path)
    if is_parquet(path):
        return set()
    with _sentences(path):
        wanted = [i for i, name in enumerate(found) if name]
        texts = _csv(path, wanted, wanted, rows=10_000)
    # An empty cell is NaN here, which is no text.
    columns = {i: [text for text in texts[i].unique() if isinstance(text, str)] for i in wanted}
    return {
        found[i]
        for i, cells in columns.items()
        if all(_WHOLE.fullmatch(text) for text in cells if text not in MISSING)
        and any(_ZERO_IN_FRONT.fullmatch(text) for text in cells)
    }


def is_parquet(path: Path) -> bool:
    """Whether a file is one, by its name."""
    return path.name.lower().endswith(_PARQUET_ENDINGS)


@contextlib.contextmanager
def _sentences(path: Path) -> Iterator[None]:
    """What reading a file can run into, in one sentence each."""
    try:
        with _stoppable():
            yield
    except UnicodeDecodeError:
        raise DataError(f"{path} is not text in UTF-8.") from None
    except csv.Error:
        raise DataError(f"{path} {_UNPARSED}") from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise DataError(f"{path} cannot be decompressed. Was it cut short?") from None
    except (DataError, MemoryError):
        raise
    except Exception as error:  # of pandas, pyarrow or the disk; they may quote a cell
        strerror = error.strerror if isinstance(error, OSError) else None
        why = strerror or "it is damaged or of another kind"
        raise DataError(f"{path} cannot be read: {why}.") from None


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """Ctrl-C stops it also where a library takes it for a failure of its own.

    The parser of pandas calls back to read on, and whatever is raised there that is no `Exception`
    comes out as a table that cannot be parsed.
    """
    stops: list[int] = []

    def stop(number: int, frame: Any) -> None:
        stops.append(number)
        signal.default_int_handler(number, frame)

    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not ours or threading.current_thread() is not threading.main_thread():
        yield  # somebody else cares for it, or it cannot arrive here
        return
    signal.signal(signal.SIGINT, stop)
    try:
        yield
    except Exception:
        if stops:
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _csv(
    path: Path, wanted: list[int], words: list[int], *, rows: int | None = None
) -> pd.DataFrame:
    import pandas as pd

    with _parsing(path):
        frame: pd.DataFrame = pd.read_csv(path, nrows=rows, **_csv_options(path, wanted, words))
    return frame[wanted]


def _csv_options(path: Path, wanted: list[int], words: list[int]) -> dict[str, Any]:
    """How pandas is to read the file: by the places of its columns."""
    found, separator = _header(path)
    return {
        "sep": separator,
        "header": 0,
        "names": range(len(found)),
        "index_col": False,  # or a row with too many fields would lend its first one to an index
        "dtype": dict.fromkeys(words, str),
        "keep_default_na": False,
        "na_values": {i: [""] if i in words else list(MISSING) for i in wanted},
        "encoding": "utf-8-sig",
        "compression": "gzip" if path.name.lower().endswith(".gz") else None,
        "skipinitialspace": True,
        "low_memory": False,  # by blocks, a column's type could differ from block to block
    }


@contextlib.contextmanager
def _parsing(path: Path) -> Iterator[None]:
    """What pandas says of a CSV file that it cannot take apart, in a sentence without a cell."""
    import pandas as pd

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # it says that data are lost
            yield
    except pd.errors.ParserWarning:
        raise DataError(f"{path} has more fields than names.") from None
    except pd.errors.ParserError as error:
        # Of what pandas says, a line and the numbers of fields are taken.
        numbers = re.search(r"Expected \d+ fields in line \d+, saw \d+", str(error))
        why = numbers[0] if numbers else "a quote is left open, or a row is cut short"
        raise DataError(f"{path} cannot be parsed: {why}.") from None


def _header(path: Path) -> tuple[list[str], str]:
    """The names, and what separates them: the separator that splits the first line most."""
    with path.open("rb") as raw:
        compressed = path.name.lower().endswith(".gz")
        content: Any = gzip.GzipFile(fileobj=raw) if compressed else raw
        with io.TextIOWrapper(content, encoding="utf-8-sig", newline="") as text:
            start = text.read(1 << 22)
    if not start.strip():
        raise DataError(f"{path} is empty.")
    if "\0" in start:
        raise DataError(f"{path} is not a text file.")
    first: dict[str, list[str]] = {}
    for each in _SEPARATORS:
        # Blank lines before the header are skipped, as pandas does.
        lines = csv.reader(io.StringIO(start.lstrip("\r\n"), newline=""), delimiter=each)
        try:
            first[each] = next(lines, [])
        except csv.Error:  # a field of 100,000 characters: another separator, or a quote left open
            first[each] = []
    separator = max(_SEPARATORS, key=lambda each: len(first[each]))
    if not first[separator]:
        raise DataError(f"{path} {_UNPARSED}")
    return [name.strip() for name in first[separator]], separator


def _parquet_file(path: Path) -> Any:
    # Not by an import statement: it is no dependency of ours.
    return importlib.import_module("pyarrow.parquet").ParquetFile(path)


def check_names(path: str | Path, names: Sequence[str], declared: Collection[str] = ()) -> None:
    """Refuse a first line that holds no names; those `declared` public are right as they are.

    Raises
    ------
    DataError
        Telling places, and nothing that stands there.
    """
    if why := strange(names, declared):
        raise DataError(f"{path} {why}")
    twice = next((name for name, times in Counter(names).items() if times > 1 and name), None)
    if twice is not None:
        same = [place for place, name in enumerate(names, 1) if name == twice]
        raise DataError(f"{path} has one name twice: in {_columns(same)}.")


def strange(names: Sequence[str], declared: Collection[str] = ()) -> str:
    """Why these cannot be names of columns, telling places; empty if they can."""
    others = [(place, name) for place, name in enumerate(names, 1) if name not in declared]
    if any(len(name) > 1000 or printable(name) != name for _, name in others):
        return _UNPARSED
    numbers = [(place, name) for place, name in others if name and is_number(name)]
    # 0, 1, 2, ... or 1, 2, 3, ... is how pandas names columns that have no name.
    many, listed = len(numbers), [name for _, name in numbers]
    counts = ([str(start + place) for place in range(many)] for start in (0, 1))
    if not numbers or (many >= _COUNTED and listed in counts):
        return ""
    return f"seems to have no header: no name in {_columns([place for place, _ in numbers])}."


def column_name(name: str, names: Sequence[str], public: Collection[str]) -> str:
    """How sentences call a column, after the word "column"."""
    if name in public:
        return printable(name, _SHOWN)
    return f"{names.index(name) + 1} of the file"


def known_column(argument: str, name: str, names: Sequence[str], shown: str = "") -> str:
    """Return `name` if it is one of the table's columns; otherwise say a very near one.

    Whoever typed most of a name knows it. No other is told; and if nobody typed it, `shown` is
    told in its place.
    """
    if name not in names:
        words = [each for each in names if _WORD.fullmatch(each) and len(each) <= _SHOWN]
        near = [each for each in words if each.lower() == name.lower()]
        near += difflib.get_close_matches(name, words, n=1, cutoff=0.8)
        hint = f"Did you mean {near[0]}?" if near and not shown else _NOT_PRINTED
        checks.fail(argument, shown or repr(name), "to be a column of the table", hint)
    return name


def is_number(name: str) -> bool:
    """Whether a name is a number, a date or the like: something without a word in it."""
    letters = {letter.lower() for letter in name if letter.isalpha()}
    try:
        return not letters or (letters == {"e"} and math.isfinite(float(name)))  # 1e5
    except ValueError:
        return False


def _columns(places: Sequence[int]) -> str:
    told = [str(place) for place in places[:_COUNTED]]
    more = f" and {len(places) - _COUNTED:,} more" if len(places) > _COUNTED else ""
    return f"column{'s' * (len(places) > 1)} {', '.join(told)}{more}"
