"""Environment variables with which commands find a cluster and its credentials; each has an option, too."""

from __future__ import annotations

BOOTSTRAP = "BARNABAS_BOOTSTRAP"
"""Bootstrap servers, like ``--bootstrap``."""
COMMAND_CONFIG = "BARNABAS_COMMAND_CONFIG"
"""Path of the client's properties file, like ``--command-config``."""
PROFILE = "BARNABAS_PROFILE"
"""Name of a profile in that file, like ``--profile``."""
