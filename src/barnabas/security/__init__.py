"""Who connects, and what it may do: TLS and SASL before a connection's first request, and the authorizer.

`tls_stream` encrypts one stream, `sasl_server` and `sasl_client` authenticate it; `listener_security` and
`client_security` put them together from a configuration. Certificates are read, and contexts made, by
`host`; random numbers come from there as well (`ports.Secrets`). `acl_index` keeps access control entries,
`authorizer` decides by them, and the modules `*_access` say what each API asks for.

The errors by which two sides do not agree are here, so that a client without TLS and SASL loads neither.
"""

from __future__ import annotations


class SaslError(Exception):
    """An exchange failed; the text may be shown to the peer, `detail` may not."""

    def __init__(self, text: str, detail: str = "") -> None:
        super().__init__(text)
        self.detail = detail


class TlsHandshakeError(OSError):
    """Two sides did not agree; its text says why."""
