"""The things that Spark uses or asks for again: frames, views, tables of SQL, and the beginning of a
stream."""
