"""Reports when the certificates of a node's listeners expire: by a metric, and by daily log events in the
last month.

The metric `CERTIFICATES` has whole seconds, negative after the expiry. A replaced certificate counts from the
next check on.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.ports import HasSecrets, Ports
from barnabas.security.listener_security import ListenerStages

CERTIFICATES = "barnabas.security:type=Certificates,name=SecondsLeft,listener="
DAY_S = 86_400
DAY_MS = DAY_S * 1000.0
WARNING_DAYS = 30


class CertificateWatch:
    """Watches the certificates of one node. `stages` are its listeners by name."""

    def __init__(self, ports: Ports, stages: Mapping[str, ListenerStages]) -> None:
        self._ports = ports
        self._stages = stages

    def begin(self) -> None:
        """Check now and then once a day."""
        if self.seconds_left():
            self._check_expiry()

    def seconds_left(self) -> dict[str, int]:
        """Seconds until the certificate of each TLS listener expires."""
        ports, found = self._ports, {}
        if not isinstance(ports, HasSecrets):
            return {}
        for name, stage in self._stages.items():
            if stage.security.tls is None:
                continue
            try:
                end_ms = ports.secrets.certificate_ends_ms(stage.security.tls)
            except OSError:
                continue  # it was replaced by an invalid one, which new connections report
            if end_ms is not None:
                found[name] = (end_ms - ports.clock.wall_ms()) // 1000
        return found

    def metrics(self) -> dict[str, int]:
        return {f"{CERTIFICATES}{name}": left for name, left in self.seconds_left().items()}

    def _check_expiry(self) -> None:
        for name, left in self.seconds_left().items():
            days = left // DAY_S
            if days < WARNING_DAYS:
                level = "warning" if left >= 0 else "error"
                self._ports.log(level, "tls.certificate_expires", listener=name, days=days)
        self._ports.wakeups.call_at(self._ports.clock.now_ms() + DAY_MS, self._check_expiry)
