"""Serves Fetch: sessions, one read pass, requests that wait.

Source: Kafka's ``ReplicaManager.fetchMessages``, ``DelayedFetch``, ``FetchSession``.
"""
