"""The controller: every rule by which the cluster's state changes, as values.

Deciders read a :class:`~barnabas.controller.decision_context.ControllerContext` and return a
:class:`~barnabas.controller.decision.Decision`: records, the answer, and the reason. They change
nothing. :mod:`~barnabas.controller.active.quorum_controller` appends the records through the quorum, replays
them and answers once they are committed.
"""
