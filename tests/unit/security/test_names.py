"""Certificates' names, mapping rules and JAAS lines."""

from __future__ import annotations

import ssl

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.local.certificate_authority import Authority
from barnabas.config.definition import ConfigError
from barnabas.security.certificates import read_certificate
from barnabas.security.jaas import check_mechanism, parse_login_module
from barnabas.security.principal_mapping import NoRuleError, parse_rules

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_a_subject_is_written_as_rfc_2253_has_it() -> None:
    identity = Authority().identity("node-1")
    found = read_certificate(ssl.PEM_cert_to_DER_cert(identity.certificate_pem))
    assert found.subject == "CN=node-1,O=Castle\\, West"
    ends = identity.certificate.not_valid_after_utc.timestamp() * 1000
    assert found.not_after_ms == int(ends)


@pytest.mark.slow
@given(st.binary(max_size=200))
def test_bytes_that_are_no_certificate_are_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        read_certificate(data)


def test_a_certificate_cut_anywhere_is_a_value_error() -> None:
    der = ssl.PEM_cert_to_DER_cert(Authority().identity("x").certificate_pem)
    for size in range(0, len(der) - 1, 7):
        with pytest.raises(ValueError):
            read_certificate(der[:size])


def test_other_attributes_are_numbers_as_with_java() -> None:
    name = x509.Name([x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a@b")])
    assert NameOID.EMAIL_ADDRESS.dotted_string in _subject_of(name)
    assert _subject_of(name).startswith("1.2.840.113549.1.9.1=#16")


def _subject_of(name: x509.Name) -> str:
    authority = Authority()
    authority._name = name  # its own name becomes that of what it signs for itself
    certificate = authority._sign(name, authority.key)
    from cryptography.hazmat.primitives.serialization import Encoding

    return read_certificate(certificate.public_bytes(Encoding.DER)).subject


@pytest.mark.parametrize(
    ("rules", "principal"),
    [
        ("DEFAULT", "User:CN=Me,OU=Ops,O=X"),
        ("", "User:CN=Me,OU=Ops,O=X"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/", "User:Me@Ops"),
        ("RULE:^CN=(.*?),.*$/$1/L, DEFAULT", "User:me"),
        ("RULE:^CN=(.*?),.*$/$1/U", "User:ME"),
        ("RULE:^UID=(.*?)$/$1/,RULE:^CN=(\\w+),.*/$1/", "User:Me"),
    ],
)
def test_the_first_rule_that_applies_names_the_principal(rules: str, principal: str) -> None:
    assert parse_rules(rules).principal("CN=Me,OU=Ops,O=X") == principal


def test_a_name_without_a_rule_is_refused() -> None:
    with pytest.raises(NoRuleError):
        parse_rules("RULE:^UID=(.*)$/$1/").principal("CN=x")


@pytest.mark.parametrize("rules", ["RULE:", "RULE:a/b", "DEFAULTS", "RULE:(/x/", "RULE:a/b/X"])
def test_a_rule_that_is_none_ends_the_start(rules: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules"):
        parse_rules(rules)


def test_a_login_module_is_read_with_its_users() -> None:
    text = f'{PLAIN} required username="me" password="a \\"b\\";c" user_me="x" user_you=y;'
    module = parse_login_module("k", text, "PLAIN")
    assert (module.username, module.password) == ("me", 'a "b";c')
    assert module.users == {"me": "x", "you": "y"}
    assert "x" not in repr(module).replace("mechanisms", "")


@pytest.mark.parametrize(
    ("text", "mechanism"),
    [
        ("", "PLAIN"),
        (f'{PLAIN} required password="secret"', "PLAIN"),
        (f'{PLAIN} password="secret";', "PLAIN"),
        (f'{PLAIN} required password="secret;', "PLAIN"),
        (f'{PLAIN} required password "secret";', "PLAIN"),
        (f'{PLAIN} required password="secret";', "SCRAM-SHA-256"),
        ('com.sun.Krb5LoginModule required password="secret";', "PLAIN"),
    ],
)
def test_a_broken_login_module_shows_no_secret(text: str, mechanism: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_login_module("sasl.jaas.config", text, mechanism)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(("mechanism", "says"), [("GSSAPI", "Kerberos"), ("NTLM", "one of")])
def test_an_unsupported_mechanism_is_refused_in_words(mechanism: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        check_mechanism("sasl.enabled.mechanisms", mechanism)
