"""A table in any form, as parts that are read as batches of float columns and labels.

Arrays are sliced; everything else comes as Arrow record batches: data frames through the Arrow stream interface that
pandas, polars and pyarrow share, files through pyarrow's readers, one bounded batch at a time. A table can be read
more than once, always in the same order. Labels stay as they are; `LabelEncoder` turns them into -1 and +1.

Modules: `cells`, `class_values`, `column_selection`, `column_types`, `csv_dialect`, `csv_files`, `csv_records`,
`dask_frames`, `databases`, `files`, `folders`, `frames`, `gpu_arrays`, `labels`, `named_paths`, `object_columns`,
`object_stores`, `opening`, `paths`, `person_ids`, `private_reader`, `raw_table`, `readers`, `schema`, `spark_frames`,
`spark_jobs`, `sparse`, `store_files`, `streams`, `strict_reader`, `table`, `urls`, `weights`.
"""

from radoboost.tables.opening import column_storage_of_table, open_table
from radoboost.tables.table import Batch, Partition, Table, refuse_not_finite_values

__all__ = ["Batch", "Partition", "Table", "column_storage_of_table", "open_table", "refuse_not_finite_values"]
