"""Who connects, and what it may do: TLS and SASL before a connection's first request, and the authorizer.

`tls_stream` encrypts one stream, `sasl_server` and `sasl_client` authenticate it; `listener_security` and
`client_security` put them together from a configuration. Certificates are read, and contexts made, by
`host`; random numbers come from there as well (`ports.Secrets`). `acl_index` keeps access control entries,
`authorizer` decides by them, and the modules `*_access` say what each API asks for.
"""
