"""Columns of Parquet files, and of the Arrow files that `datasets` of Hugging Face writes; needs pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.errors import DataError, MissingPackage

_ROWS = 1024  # that are read together


def read_columns(path: Path, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """The values of these columns in each row; `translation.en` is the field en of the column translation."""
    with _one_line(path):
        batches = _parquet_batches if _is_parquet(path) else _arrow_batches
        for batch in batches(path, columns):
            table = _flat(batch)
            for name in columns:
                if name not in table.column_names:
                    shown = ", ".join(repr(known[:20]) for known in _names(path, table)[:6])
                    raise DataError(f"{path} has no column {name!r} ({shown}); give the names of its columns")
            yield from zip(*(table.column(name).to_pylist() for name in columns), strict=True)


def _is_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


def _parquet_batches(path: Path, columns: Sequence[str]) -> Iterator[Any]:
    import pyarrow.parquet as parquet

    with parquet.ParquetFile(path) as file:
        yield from file.iter_batches(_ROWS, columns=list(columns))


def _arrow_batches(path: Path, columns: Sequence[str]) -> Iterator[Any]:
    """The batches of a stream, as `datasets` writes it, or of a file."""
    import pyarrow as pa

    with pa.memory_map(str(path)) as source:
        if source.read(6) == b"ARROW1":
            file = pa.ipc.open_file(source)
            yield from (file.get_batch(number) for number in range(file.num_record_batches))
        else:
            source.seek(0)
            yield from pa.ipc.open_stream(source)


def _flat(batch: Any) -> Any:
    """A batch as a table whose columns of several fields are a column for each."""
    import pyarrow as pa

    table = pa.Table.from_batches([batch])
    while any(pa.types.is_struct(field.type) for field in table.schema):
        table = table.flatten()
    return table


def _names(path: Path, table: Any) -> list[str]:
    """The names of all columns of a file, also of those that were not read."""
    import pyarrow.parquet as parquet

    return parquet.read_schema(path).names if _is_parquet(path) else table.column_names


@contextmanager
def _one_line(path: Path) -> Iterator[None]:
    """Name the package if it is missing, and the file if it is damaged."""
    try:
        import pyarrow as pa
    except ImportError:
        raise MissingPackage(f"{path} needs the package pyarrow: pip install 'regard[parquet]'") from None
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"cannot read {path}: {reason}; the file may be damaged or cut short") from None
