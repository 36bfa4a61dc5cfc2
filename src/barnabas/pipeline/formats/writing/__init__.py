"""Values written in a format: :mod:`writer_schema` is the query's, and its tasks encode by it
(:mod:`avro_writing`, :mod:`protobuf_writing`, :mod:`text_writing`)."""
