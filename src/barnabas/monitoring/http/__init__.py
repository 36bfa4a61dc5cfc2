"""A small HTTP/1.1 server on the node's own loop, sans-IO by h11: GET and HEAD of fixed paths."""
