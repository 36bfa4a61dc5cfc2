"""SASL/OAUTHBEARER: bearer tokens, where they come from, how a server judges them (KIP-255, 768; RFC 7628).

`frames` are the messages, `exchanges` both ends of one authentication, `json_web_tokens` judges a token by an
issuer's keys, `issuer_keys` keeps these up to date, and `login` obtains tokens for this side's connections.
"""
