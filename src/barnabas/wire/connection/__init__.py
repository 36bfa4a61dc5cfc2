"""One connection of a listener: its states, its requests, its responses. Sans-IO.

`server_connection` receives frames and calls handlers; `states` has its states and the moves between them;
`response_queue` puts responses into the order of their requests; `peer` is what the connection knows of its
client; `authenticator` is the interface to TLS and SASL; `unread_responses` bounds what peers do not read.
"""
