"""Keys of a broker that ZooKeeper coordinates: what Apache Kafka 3.9 has and Kafka 4 no longer has.

Form of the lines: `barnabas.config.definition`.
"""

KEYS = """
zookeeper.connect | string | null | any | read-only | high
    The ensemble, as host:port,host:port/chroot; with no process.roles it makes this a ZooKeeper cluster's broker.
zookeeper.session.timeout.ms | int | 18000 | 1.. | read-only | high
    How long the ensemble waits for a silent session before it ends it, and its registration with it.
zookeeper.connection.timeout.ms | int | null | 1.. | read-only | high
    How long one attempt to connect may take; the session time-out if not set.
zookeeper.max.in.flight.requests | int | 10 | 1.. | read-only | high
    How many requests may be in flight.
zookeeper.set.acl | boolean | false | any | read-only | high
    Whether znodes get ACLs for the brokers only; it needs a certificate of theirs at the ensemble.
zookeeper.metadata.migration.enable | boolean | false | any | read-only | high
    Whether the cluster moves to KRaft while it serves (KIP-866): on its brokers, and on the KRaft controllers.
zookeeper.ssl.client.enable | boolean | false | any | read-only | medium
    Whether the connection to the ensemble is TLS.
zookeeper.clientCnxnSocket | string | null | any | read-only | medium
    Accepted for Kafka's sake: TLS needs no other class here.
zookeeper.ssl.keystore.location | string | null | any | read-only | medium
    The file with this client's key and certificate.
zookeeper.ssl.keystore.password | password | null | any | read-only | medium
    The password of that file.
zookeeper.ssl.keystore.type | string | null | any | read-only | medium
    The form of that file: PEM or PKCS12.
zookeeper.ssl.truststore.location | string | null | any | read-only | medium
    The file with the certificates that are trusted.
zookeeper.ssl.truststore.password | password | null | any | read-only | medium
    The password of that file.
zookeeper.ssl.truststore.type | string | null | any | read-only | medium
    The form of that file: PEM or PKCS12.
zookeeper.ssl.protocol | string | TLSv1.2 | any | read-only | low
    The version of TLS.
zookeeper.ssl.enabled.protocols | list | null | list | read-only | low
    Accepted for Kafka's sake: zookeeper.ssl.protocol names the version.
zookeeper.ssl.cipher.suites | list | null | list | read-only | low
    The cipher suites that may be used.
zookeeper.ssl.endpoint.identification.algorithm | string | HTTPS | any | read-only | low
    HTTPS compares the server's name with its certificate; empty does not.
zookeeper.ssl.crl.enable | boolean | false | any | read-only | low
    Accepted for Kafka's sake: no lists of revoked certificates are read.
zookeeper.ssl.ocsp.enable | boolean | false | any | read-only | low
    Accepted for Kafka's sake: no responder is asked about certificates.
broker.id.generation.enable | boolean | true | any | read-only | medium
    Whether a broker without broker.id gets one from the ensemble.
reserved.broker.max.id | int | 1000 | 0.. | read-only | medium
    The highest id that may be given in a file; generated ones are above it.
inter.broker.protocol.version | string | 3.9 | any | read-only | medium
    3.6 to 3.9, and changes nothing: requests between brokers go in the highest version that both have.
control.plane.listener.name | string | null | any | read-only | high
    The listener for requests of the controller; the inter-broker listener if not set.
controlled.shutdown.max.retries | int | 3 | any | read-only | medium
    How often a broker that stops asks the controller to move its leaderships.
controlled.shutdown.retry.backoff.ms | long | 5000 | any | read-only | medium
    The pause between two of these requests.
"""  # noqa: E501
