"""Reading topics in Spark: source, range reader, resolution of offsets."""
