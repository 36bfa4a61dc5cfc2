"""``barnabas console``: pages in a browser that show a cluster and change it.

The pages are a process of their own that asks the cluster as any client does, so that they work with Apache
Kafka, too. What they need is installed by the extra ``console``; nothing of it is loaded before this command
runs.
"""

from __future__ import annotations

from pathlib import Path

import typer

from barnabas.cli.connection.connect import (
    USAGE,
    Bootstrap,
    Data,
    command_config,
    find_bootstrap,
    registry_of,
)
from barnabas.cli.failure import Failure
from barnabas.cli.local.console_process import ADDRESS_PREFIX
from barnabas.cli.plain_text import say
from barnabas.config.definition import ConfigError
from barnabas.types import Endpoint


def command(
    host: str = typer.Option("127.0.0.1", help="The address to listen on."),
    port: int = typer.Option(8180, min=0, max=65535, help="0 is a free port."),
    read_only: bool = typer.Option(False, "--read-only", help="Show everything, change nothing."),
    as_configured: bool = typer.Option(
        False,
        "--as-configured",
        help="All visitors ask as the user of --command-config, without signing in.",
    ),
    host_name: list[str] = typer.Option(
        [], "--host-name", metavar="NAME", help="Browsers may ask for this host, too; '*' is any."
    ),
    schema_registry: str | None = typer.Option(
        None,
        "--schema-registry",
        metavar="URL",
        help="Shows values in Avro, Protobuf and JSON Schema by this registry, else by"
        " schema.registry.url of the profile or of --command-config ('' is none); the user is"
        " basic.auth.user.info there.",
    ),
    certificate: Path | None = typer.Option(
        None, "--tls-certificate", metavar="FILE", help="PEM: pages by HTTPS, with --tls-key."
    ),
    key: Path | None = typer.Option(None, "--tls-key", metavar="FILE", help="PEM."),
    bootstrap: Bootstrap = None,
    data: Data = None,
) -> None:
    """Serve pages about a cluster until Ctrl-C; prints their address."""
    try:
        from barnabas.console.server import serve
        from barnabas.console.settings import ConsoleSettings
    except ModuleNotFoundError as error:
        raise Failure(
            f"the console needs {error.name}: pip install 'barnabas[console]'", USAGE
        ) from None
    if (certificate is None) != (key is None):
        raise Failure("give --tls-certificate and --tls-key together", USAGE)
    properties = command_config(data, bootstrap)
    registry = registry_of(schema_registry, properties)
    settings = ConsoleSettings(
        bootstrap=find_bootstrap(bootstrap, data),
        properties=properties,
        host=host,
        port=port,
        read_only=read_only,
        as_configured=as_configured,
        names=tuple(host_name),
        schema_registry="" if registry is None else registry.url,
        registry_user=("", "") if registry is None else (registry.user, registry.password),
        certificate=str(certificate or ""),
        key=str(key or ""),
    )
    if not settings.is_local and not settings.needs_sign_in and not as_configured:
        raise Failure(
            f"this cluster asks for no password, so that everyone who reaches {host} would be its"
            " administrator: say --as-configured where that is meant",
            USAGE,
        )
    try:
        serve(settings, lambda address: say(f"{ADDRESS_PREFIX}{address}"))
    except ConfigError as error:
        raise Failure(str(error), USAGE) from error
    except (OSError, ValueError) as error:
        where = Endpoint(host, port)
        raise Failure(f"the console cannot serve {where}: {error}", USAGE) from error
