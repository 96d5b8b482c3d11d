"""A table in any form, as parts that are read as batches of float columns and labels (`LabelEncoder` has -1 and +1).

Reading: `table`: Table, Partition, Batch, take_batch_rows; files that changed, values that are not finite. `opening`:
    open_table, whatever it is; arrays and their label column. `readers`: what both ways share, Reader. `strict_reader`:
    StrictReader refuses gaps. `private_reader`: PrivateReader, value by value. `raw_table`: RawTable, cells before a
    schema. `frames`: data frames and Arrow batches, parts on clusters. `gpu_arrays`: arrays on a device. `sparse`:
    SparseRows, entries of matrices. `weights`: rows repeated by weight. `person_ids`: spelling of ids.
Cells and columns: `cells`: numbers, gaps and date cells of Arrow columns, categories. `object_columns`: Python objects,
    pandas and polars columns as texts; encoded blocks. `labels`: LabelCollector, LabelEncoder, distinct labels, class
    index. `class_values`: names, kinds and spellings of classes. `column_selection`: names of features, their storage
    types. `column_types`: Number, Category, Date, OneHot, their bounds and JSON. `schema`: Schema, its problems,
    products, JSON schema.
CSV: `csv_dialect`: separator, header, decimal marks. `csv_records`: Records, bytes and quotes, cells of a record.
    `csv_files`: ranges of a file, CsvFates, strict reading.
Files and stores: `files`: FilePart, row groups, Arrow and Parquet parts, footers. `paths`: expand_paths, stamps,
    identity, repeated files, gzip. `named_paths`: NamedPath. `folders`: partition folders, old versions (Delta),
    patterns. `urls`: kinds of addresses, passwords and secrets masked. `object_stores`: Store, StorePath, listing,
    wildcards. `store_files`: byte ranges, retries, read-ahead, S3, fsspec.
Queries and clusters: `databases`: query, DuckDB, PostgreSQL, cursors. `streams`: spools, standard input, datasets, lazy
    frames. `spark_jobs`: columns and partitions of a Spark frame, jobs run and cancelled, errors, collected batches.
"""

from radoboost.tables.opening import column_storage_of_table, open_table
from radoboost.tables.table import Batch, Partition, Table, refuse_not_finite_values

__all__ = ["Batch", "Partition", "Table", "column_storage_of_table", "open_table", "refuse_not_finite_values"]
