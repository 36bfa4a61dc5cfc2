"""Share groups at the leaders of their partitions (KIP-932): which member holds which record.

`share_partition` is the machine of one partition as one group sees it, over `in_flight`, its offsets under
way; `share_sessions` are the members' sessions, `share_fetches` serves them; `state_client` keeps what was
acknowledged at the share coordinators; `share_groups` puts the parts together. Nothing here is loaded
before the first request of a share group.
"""
