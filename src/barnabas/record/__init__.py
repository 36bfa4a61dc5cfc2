"""Record batches of format v2, as they stand on the wire and on disk.

:mod:`barnabas.record.batch` reads headers, :mod:`barnabas.record.builder` makes batches,
:mod:`barnabas.record.decode` walks records, :mod:`barnabas.record.compression` has the codecs,
:mod:`barnabas.record.columnar` (extra ``[fast]``) turns batches into Arrow columns.
"""
