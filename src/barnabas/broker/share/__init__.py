"""Share groups at the leaders of their partitions (KIP-932): they keep which member holds which
record.

`share_partition` is the machine of one partition for one group; `in_flight` has its offsets under
way. `share_sessions` are the members' sessions, and `share_fetches` serves them. `state_client`
writes acknowledgements to share coordinators. `share_groups` connects the parts. Nothing here is
loaded before the first request of a share group.
"""
