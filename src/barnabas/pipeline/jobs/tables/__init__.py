"""The tables that jobs write: Parquet, Delta and Iceberg, each with the duties of its writers."""
