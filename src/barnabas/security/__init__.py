"""Who connects: TLS and SASL as stages before a connection's first request. Sans-IO.

`tls_stream` encrypts one stream, `sasl_server` and `sasl_client` authenticate it; `listener_security` and
`client_security` put them together from a configuration. Certificates are read, and contexts made, by
`host`; random numbers come from there as well (`ports.Secrets`).
"""
