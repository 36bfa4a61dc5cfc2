"""Transport security, SASL and delegation tokens.

Form of the lines: `barnabas.config.definition`.
"""

KEYS = """
sasl.mechanism.controller.protocol | string | GSSAPI | any | read-only | high
    SASL mechanism for connections to controllers.
connections.max.reauth.ms | long | 0 | any | read-only | medium
    After which a client must authenticate again; 0 is never.
sasl.server.max.receive.size | int | 524288 | any | read-only | medium
    The largest message of a SASL exchange.
security.providers | string | null | any | read-only | low
    Accepted for Kafka's sake: it names Java classes.
principal.builder.class | class | org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder | any | per-broker | medium
    Accepted for Kafka's sake: it names a Java class.
ssl.client.auth | string | none | required/requested/none | per-broker | medium
    Whether clients must show a certificate.
ssl.principal.mapping.rules | string | DEFAULT | any | read-only | low
    How a certificate's name becomes a principal.
ssl.allow.dn.changes | boolean | false | any | read-only | low
    Accepted for Kafka's sake: a new keystore may have another distinguished name.
ssl.allow.san.changes | boolean | false | any | read-only | low
    Accepted for Kafka's sake: a new keystore may have other alternative names.
ssl.protocol | string | TLSv1.3 | any | per-broker | medium
    Accepted for Kafka's sake: ssl.enabled.protocols lists the TLS versions.
ssl.provider | string | null | any | per-broker | medium
    Accepted for Kafka's sake: it names a Java provider.
ssl.enabled.protocols | list | TLSv1.2,TLSv1.3 | list | per-broker | medium
    TLS versions that may be spoken.
ssl.keystore.type | string | JKS | any | per-broker | medium
    Form of the keystore.
ssl.keystore.location | string | null | any | per-broker | medium
    File with this node's key and certificate.
ssl.keystore.password | password | null | any | per-broker | medium
    Password of the keystore.
ssl.key.password | password | null | any | per-broker | medium
    Password of the private key.
ssl.keystore.key | password | null | any | per-broker | medium
    Private key as PEM text.
ssl.keystore.certificate.chain | password | null | any | per-broker | medium
    Certificate chain as PEM text.
ssl.truststore.type | string | JKS | any | per-broker | medium
    Form of the truststore.
ssl.truststore.location | string | null | any | per-broker | medium
    File with the certificates that are trusted.
ssl.truststore.password | password | null | any | per-broker | medium
    Password of the truststore.
ssl.truststore.certificates | password | null | any | per-broker | medium
    Trusted certificates as PEM text.
ssl.keymanager.algorithm | string | SunX509 | any | per-broker | medium
    Accepted for Kafka's sake: it names a Java algorithm.
ssl.trustmanager.algorithm | string | PKIX | any | per-broker | medium
    Accepted for Kafka's sake: it names a Java algorithm.
ssl.endpoint.identification.algorithm | string | https | any | per-broker | low
    How a server's name is checked against its certificate.
ssl.secure.random.implementation | string | null | any | per-broker | low
    Accepted for Kafka's sake: it names a Java source of chance.
ssl.cipher.suites | list | "" | list | per-broker | medium
    Cipher suites that may be used; empty leaves it to the library.
ssl.engine.factory.class | class | null | any | per-broker | low
    Accepted for Kafka's sake: it names a Java class.
sasl.mechanism.inter.broker.protocol | string | GSSAPI | any | per-broker | medium
    SASL mechanism between brokers.
sasl.enabled.mechanisms | list | GSSAPI | list | per-broker | medium
    SASL mechanisms that clients may use.
sasl.server.callback.handler.class | class | null | any | read-only | medium
    Accepted for Kafka's sake: it names a Java class.
sasl.kerberos.principal.to.local.rules | list | DEFAULT | list | per-broker | medium
    How a Kerberos principal becomes a short name.
sasl.jaas.config | password | null | any | per-broker | medium
    Credentials for SASL in Java's form.
sasl.client.callback.handler.class | class | null | any | read-only | medium
    Accepted for Kafka's sake: it names a Java class.
sasl.login.class | class | null | any | read-only | medium
    Accepted for Kafka's sake: it names a Java class.
sasl.login.callback.handler.class | class | null | any | read-only | medium
    Accepted for Kafka's sake: it names a Java class.
sasl.kerberos.service.name | string | null | any | per-broker | medium
    Kerberos name of the service.
sasl.kerberos.kinit.cmd | string | /usr/bin/kinit | any | per-broker | medium
    Path of the kinit command.
sasl.kerberos.ticket.renew.window.factor | double | 0.8 | any | per-broker | medium
    Share of a ticket's life after which it is renewed.
sasl.kerberos.ticket.renew.jitter | double | 0.05 | any | per-broker | medium
    How much that instant varies by chance.
sasl.kerberos.min.time.before.relogin | long | 60000 | any | per-broker | medium
    The shortest time between two renewals of a ticket.
sasl.login.refresh.window.factor | double | 0.8 | any | per-broker | medium
    Share of a credential's life after which it is renewed.
sasl.login.refresh.window.jitter | double | 0.05 | any | per-broker | medium
    How much that instant varies by chance.
sasl.login.refresh.min.period.seconds | short | 60 | any | per-broker | medium
    The shortest time between two renewals of a credential.
sasl.login.refresh.buffer.seconds | short | 300 | any | per-broker | medium
    How long before its end a credential is renewed at the latest.
sasl.login.connect.timeout.ms | int | null | any | read-only | low
    How long a connection to the identity provider may take.
sasl.login.read.timeout.ms | int | null | any | read-only | low
    How long an answer of the identity provider may take.
sasl.login.retry.backoff.max.ms | long | 10000 | any | read-only | low
    The longest rest before the identity provider is asked again.
sasl.login.retry.backoff.ms | long | 100 | any | read-only | low
    The first rest before the identity provider is asked again.
sasl.oauthbearer.jwt.retriever.class | class | org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever | any | read-only | medium
    Accepted for Kafka's sake: it names a Java class.
sasl.oauthbearer.jwt.validator.class | class | org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator | any | read-only | medium
    Accepted for Kafka's sake: it names a Java class.
sasl.oauthbearer.scope | string | null | any | read-only | medium
    Scope that a token is asked for.
sasl.oauthbearer.client.credentials.client.id | string | null | any | read-only | medium
    Client id for the identity provider.
sasl.oauthbearer.client.credentials.client.secret | password | null | any | read-only | medium
    Client secret for the identity provider.
sasl.oauthbearer.assertion.algorithm | string | RS256 | ~ES256/RS256 | read-only | medium
    Algorithm that signs an assertion.
sasl.oauthbearer.assertion.claim.aud | string | null | any | read-only | medium
    Audience claim of an assertion.
sasl.oauthbearer.assertion.claim.exp.seconds | int | 300 | 0..86400 | read-only | low
    How long an assertion is valid.
sasl.oauthbearer.assertion.claim.iss | string | null | any | read-only | medium
    Issuer claim of an assertion.
sasl.oauthbearer.assertion.claim.jti.include | boolean | false | any | read-only | medium
    Whether an assertion carries an id of its own.
sasl.oauthbearer.assertion.claim.nbf.seconds | int | 60 | 0..3600 | read-only | low
    How far back an assertion's validity begins.
sasl.oauthbearer.assertion.claim.sub | string | null | any | read-only | medium
    Subject claim of an assertion.
sasl.oauthbearer.assertion.file | string | null | any | read-only | medium
    File with a ready assertion.
sasl.oauthbearer.assertion.private.key.file | string | null | any | read-only | medium
    File with the key that signs assertions.
sasl.oauthbearer.assertion.private.key.passphrase | password | null | any | read-only | medium
    Passphrase of that key.
sasl.oauthbearer.assertion.template.file | string | null | any | read-only | medium
    File with further claims of an assertion.
sasl.oauthbearer.scope.claim.name | string | scope | any | read-only | low
    Name of the claim that holds the scope.
sasl.oauthbearer.sub.claim.name | string | sub | any | read-only | low
    Name of the claim that holds the subject.
sasl.oauthbearer.token.endpoint.url | string | null | any | read-only | medium
    Where tokens are issued.
sasl.oauthbearer.jwks.endpoint.url | string | null | any | read-only | medium
    Where the issuer's keys are published.
sasl.oauthbearer.jwks.endpoint.refresh.ms | long | 3600000 | any | read-only | low
    How often the issuer's keys are read again.
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms | long | 100 | any | read-only | low
    The first rest before the keys are asked for again.
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms | long | 10000 | any | read-only | low
    The longest rest before the keys are asked for again.
sasl.oauthbearer.clock.skew.seconds | int | 30 | any | read-only | low
    How far clocks may differ when a token is checked.
sasl.oauthbearer.allow.unverified.audience | boolean | false | any | read-only | medium
    Whether tokens are taken for any audience where none is expected.
sasl.oauthbearer.allow.unverified.issuer | boolean | false | any | read-only | medium
    Whether tokens are taken of any issuer where none is expected.
sasl.oauthbearer.expected.audience | list | "" | list | read-only | high
    Audiences of which a token must name one.
sasl.oauthbearer.expected.issuer | string | null | any | read-only | high
    Issuer that a token must name.
delegation.token.secret.key | password | null | any | read-only | medium
    Secret with which delegation tokens are made.
delegation.token.max.lifetime.ms | long | 604800000 | 1.. | read-only | medium
    How long a delegation token can be renewed.
delegation.token.expiry.time.ms | long | 86400000 | 1.. | read-only | medium
    How long a delegation token lasts without renewal.
delegation.token.expiry.check.interval.ms | long | 3600000 | 1.. | read-only | low
    How often expired delegation tokens are removed.
"""  # noqa: E501
