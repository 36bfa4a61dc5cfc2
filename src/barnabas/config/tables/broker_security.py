"""Transport security, SASL and delegation tokens.

Form of the lines: `barnabas.config.definition`.
"""

KEYS = """
sasl.mechanism.controller.protocol | string | GSSAPI | any | read-only | high
    -
connections.max.reauth.ms | long | 0 | any | read-only | medium
    -
sasl.server.max.receive.size | int | 524288 | any | read-only | medium
    -
security.providers | string | null | any | read-only | low
    -
principal.builder.class | class | org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder | any | per-broker | medium
    -
ssl.client.auth | string | none | required/requested/none | per-broker | medium
    -
ssl.principal.mapping.rules | string | DEFAULT | any | read-only | low
    -
ssl.allow.dn.changes | boolean | false | any | read-only | low
    -
ssl.allow.san.changes | boolean | false | any | read-only | low
    -
ssl.protocol | string | TLSv1.3 | any | per-broker | medium
    -
ssl.provider | string | null | any | per-broker | medium
    -
ssl.enabled.protocols | list | TLSv1.2,TLSv1.3 | list | per-broker | medium
    -
ssl.keystore.type | string | JKS | any | per-broker | medium
    -
ssl.keystore.location | string | null | any | per-broker | medium
    -
ssl.keystore.password | password | null | any | per-broker | medium
    -
ssl.key.password | password | null | any | per-broker | medium
    -
ssl.keystore.key | password | null | any | per-broker | medium
    -
ssl.keystore.certificate.chain | password | null | any | per-broker | medium
    -
ssl.truststore.type | string | JKS | any | per-broker | medium
    -
ssl.truststore.location | string | null | any | per-broker | medium
    -
ssl.truststore.password | password | null | any | per-broker | medium
    -
ssl.truststore.certificates | password | null | any | per-broker | medium
    -
ssl.keymanager.algorithm | string | SunX509 | any | per-broker | medium
    -
ssl.trustmanager.algorithm | string | PKIX | any | per-broker | medium
    -
ssl.endpoint.identification.algorithm | string | https | any | per-broker | low
    -
ssl.secure.random.implementation | string | null | any | per-broker | low
    -
ssl.cipher.suites | list | "" | list | per-broker | medium
    -
ssl.engine.factory.class | class | null | any | per-broker | low
    -
sasl.mechanism.inter.broker.protocol | string | GSSAPI | any | per-broker | medium
    -
sasl.enabled.mechanisms | list | GSSAPI | list | per-broker | medium
    -
sasl.server.callback.handler.class | class | null | any | read-only | medium
    -
sasl.kerberos.principal.to.local.rules | list | DEFAULT | list | per-broker | medium
    -
sasl.jaas.config | password | null | any | per-broker | medium
    -
sasl.client.callback.handler.class | class | null | any | read-only | medium
    -
sasl.login.class | class | null | any | read-only | medium
    -
sasl.login.callback.handler.class | class | null | any | read-only | medium
    -
sasl.kerberos.service.name | string | null | any | per-broker | medium
    -
sasl.kerberos.kinit.cmd | string | /usr/bin/kinit | any | per-broker | medium
    -
sasl.kerberos.ticket.renew.window.factor | double | 0.8 | any | per-broker | medium
    -
sasl.kerberos.ticket.renew.jitter | double | 0.05 | any | per-broker | medium
    -
sasl.kerberos.min.time.before.relogin | long | 60000 | any | per-broker | medium
    -
sasl.login.refresh.window.factor | double | 0.8 | any | per-broker | medium
    -
sasl.login.refresh.window.jitter | double | 0.05 | any | per-broker | medium
    -
sasl.login.refresh.min.period.seconds | short | 60 | any | per-broker | medium
    -
sasl.login.refresh.buffer.seconds | short | 300 | any | per-broker | medium
    -
sasl.login.connect.timeout.ms | int | null | any | read-only | low
    -
sasl.login.read.timeout.ms | int | null | any | read-only | low
    -
sasl.login.retry.backoff.max.ms | long | 10000 | any | read-only | low
    -
sasl.login.retry.backoff.ms | long | 100 | any | read-only | low
    -
sasl.oauthbearer.jwt.retriever.class | class | org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever | any | read-only | medium
    -
sasl.oauthbearer.jwt.validator.class | class | org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator | any | read-only | medium
    -
sasl.oauthbearer.scope | string | null | any | read-only | medium
    -
sasl.oauthbearer.client.credentials.client.id | string | null | any | read-only | medium
    -
sasl.oauthbearer.client.credentials.client.secret | password | null | any | read-only | medium
    -
sasl.oauthbearer.assertion.algorithm | string | RS256 | ~ES256/RS256 | read-only | medium
    -
sasl.oauthbearer.assertion.claim.aud | string | null | any | read-only | medium
    -
sasl.oauthbearer.assertion.claim.exp.seconds | int | 300 | 0..86400 | read-only | low
    -
sasl.oauthbearer.assertion.claim.iss | string | null | any | read-only | medium
    -
sasl.oauthbearer.assertion.claim.jti.include | boolean | false | any | read-only | medium
    -
sasl.oauthbearer.assertion.claim.nbf.seconds | int | 60 | 0..3600 | read-only | low
    -
sasl.oauthbearer.assertion.claim.sub | string | null | any | read-only | medium
    -
sasl.oauthbearer.assertion.file | string | null | any | read-only | medium
    -
sasl.oauthbearer.assertion.private.key.file | string | null | any | read-only | medium
    -
sasl.oauthbearer.assertion.private.key.passphrase | password | null | any | read-only | medium
    -
sasl.oauthbearer.assertion.template.file | string | null | any | read-only | medium
    -
sasl.oauthbearer.scope.claim.name | string | scope | any | read-only | low
    -
sasl.oauthbearer.sub.claim.name | string | sub | any | read-only | low
    -
sasl.oauthbearer.token.endpoint.url | string | null | any | read-only | medium
    -
sasl.oauthbearer.jwks.endpoint.url | string | null | any | read-only | medium
    -
sasl.oauthbearer.jwks.endpoint.refresh.ms | long | 3600000 | any | read-only | low
    -
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms | long | 100 | any | read-only | low
    -
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms | long | 10000 | any | read-only | low
    -
sasl.oauthbearer.clock.skew.seconds | int | 30 | any | read-only | low
    -
sasl.oauthbearer.expected.audience | list | "" | list | read-only | low
    -
sasl.oauthbearer.expected.issuer | string | null | any | read-only | low
    -
delegation.token.secret.key | password | null | any | read-only | medium
    -
delegation.token.max.lifetime.ms | long | 604800000 | 1.. | read-only | medium
    -
delegation.token.expiry.time.ms | long | 86400000 | 1.. | read-only | medium
    -
delegation.token.expiry.check.interval.ms | long | 3600000 | 1.. | read-only | low
    -
"""  # noqa: E501
