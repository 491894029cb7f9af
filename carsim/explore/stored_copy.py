"""The table beside a store, read in place of the store where it holds the very same results.

A sweep that ends writes its results as ``points.parquet`` beside the store. Reading that file takes
a tenth of the time of parsing the store. It is read only if it gives the same frame to the bit:

- ``SHA256SUMS`` has the digest of its bytes, so that a damaged or changed file is not read;
- it is marked with the digest of the store's bytes, so that an outdated one is not read;
- it is marked with the code of carsim, the metrics and the version of pandas that made its frame;
- the frame that its columns give was compared with that of the store before it was written.

Otherwise the store is parsed. A reader writes nothing.
"""

import json
from collections.abc import Mapping
from hashlib import file_digest, sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from carsim.base.digests import DIGESTS, digest_of
from carsim.base.environment import has_parquet
from carsim.explore.code import code_sha256
from carsim.explore.store import MOST_BYTES, STORE_FILE, Store, read_facts
from carsim.explore.study import result_columns

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

PARQUET_FILE = "points.parquet"

MARK = b"carsim.store"
"""Key of the mark in the metadata of the file."""


class StoredCopy(NamedTuple):
    """Contents of a store.

    Attributes:
        facts: Facts of its study.
        frame: Its results, see :func:`carsim.explore.frame.frame_of`.
    """

    facts: dict[str, Any]
    frame: "pd.DataFrame"


def marked(table: "pa.Table", frame: "pd.DataFrame", store: Store) -> "pa.Table":
    """A table that is marked as a copy of a store; as it is if it does not give the same frame.

    Args:
        table: Columns of the file.
        frame: The results.
        store: Their store.
    """
    digest = store.sha256()
    if digest is None:
        return table
    found = table.to_pandas()
    dtypes = {
        str(name): str(dtype) for name, dtype in frame.dtypes.items() if found[name].dtype != dtype
    }
    if not _restored(found, dtypes).equals(frame):
        return table
    mark = {"store": digest, "dtypes": dtypes, **_conditions()}
    metadata = table.schema.metadata or {}
    return table.replace_schema_metadata({**metadata, MARK: json.dumps(mark).encode()})


def read_copy(folder: Path) -> StoredCopy | None:
    """Facts and results of the store of a folder, from the table beside it.

    Args:
        folder: The folder of a sweep.

    Returns:
        None unless the table holds what the store holds.
    """
    if not has_parquet() or not (folder / DIGESTS).is_file():
        return None
    try:
        columns = (folder / PARQUET_FILE).read_bytes()
        if sha256(columns).hexdigest() != digest_of(folder, PARQUET_FILE):
            return None
        with (folder / STORE_FILE).open("rb") as file:
            facts = read_facts(file.readline(MOST_BYTES))
            file.seek(0)
            store_sha256 = file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
    import pyarrow as pa
    from pyarrow.parquet import read_table

    table = read_table(pa.BufferReader(columns))
    mark = json.loads((table.schema.metadata or {}).get(MARK, b"{}"))
    wanted = {"store": store_sha256, "dtypes": mark.get("dtypes"), **_conditions()}
    if facts is None or mark != wanted:
        return None
    return StoredCopy(facts, _restored(table.to_pandas(), mark["dtypes"]))


# -------------------------------------------------------------------- private


def _conditions() -> dict[str, Any]:
    """Facts besides a store on which its frame depends."""
    import pandas as pd

    return {"code": code_sha256(), "columns": list(result_columns()), "pandas": pd.__version__}


def _restored(frame: "pd.DataFrame", dtypes: Mapping[str, str]) -> "pd.DataFrame":
    """A frame with the types of some columns restored; in few blocks, as that of a store."""
    return frame.astype(dict(dtypes)).copy()
