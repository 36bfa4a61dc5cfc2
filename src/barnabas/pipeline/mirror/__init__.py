"""A mirror's offsets: where records of one cluster are in another, and what that makes of groups' offsets.

:mod:`offset_formats` has the records' bytes, :mod:`offset_syncs` the topic of a mirror with its positions in
both clusters, :mod:`group_offsets` groups of the source and what their offsets are in the target. The records
themselves are a job's (:mod:`barnabas.pipeline.jobs.job_run`).

Source: KIP-382 (MirrorMaker 2).
"""
