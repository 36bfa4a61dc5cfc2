"""Serves Fetch: sessions, read passes, and requests that wait.

Source: Kafka's ``ReplicaManager.fetchMessages``, ``DelayedFetch``, ``FetchSession``.
"""
