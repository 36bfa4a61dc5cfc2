"""Found by Spark itself: it looks for ``DefaultSource`` in top-level modules named ``pyspark_*``.

With this package installed beside pyspark, ``spark.read.format("barnabas")`` needs no registering.
"""

from barnabas.pipeline.datasource import BarnabasDataSource as DefaultSource

__all__ = ["DefaultSource"]
