"""Values of a format with a schema: Avro, Protobuf, JSON by JSON Schema; schemas from files or a registry.

:mod:`value_options` reads the options, without a cluster. :mod:`resolved_schema` finds the reader schema,
once per query, on the driver, and its columns. Workers decode by it (:mod:`avro_values`,
:mod:`protobuf_values`, :mod:`text_values`) and ask :mod:`schema_registry` for the schema of a writer. Queries
that write have :mod:`writing`.

Source: the wire format of Confluent's serializers; Avro's "Schema Resolution"; Spark's ``from_avro``.
"""
