"""A table in any form, as parts that are read as batches of float columns and labels.

Arrays are sliced; everything else comes as Arrow record batches: data frames through the Arrow stream interface that
pandas, polars and pyarrow share, files through pyarrow's readers, one bounded batch at a time. A table can be read
more than once, always in the same order. Labels stay as they are; `LabelRule` turns them into -1 and +1.
"""

from radoboost.tables.opening import open_table, table_types
from radoboost.tables.source import Batch, Part, Source, refuse_not_finite

__all__ = ["Batch", "Part", "Source", "open_table", "refuse_not_finite", "table_types"]
