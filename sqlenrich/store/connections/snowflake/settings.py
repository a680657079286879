"""What a profile or a connection of Snowflake's says, as parameters of snowflake-connector-python 4.x or 5.x."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sqlenrich.core.errors import ConfigError, did_you_mean
from sqlenrich.store.connections.base import ConnectPolicy

SESSION = {"TIMEZONE": "UTC", "AUTOCOMMIT": True, "ABORT_DETACHED_QUERY": False}
"""Parameters that an account or a user may have set otherwise. The last one, if true, ends a dead client's statements.

https://docs.snowflake.com/en/sql-reference/parameters
"""

_PASSED = (
    "account", "user", "password", "role", "warehouse", "database", "schema", "host", "port", "protocol",
    "authenticator", "token", "token_file_path", "private_key", "private_key_file", "private_key_file_pwd",
    "private_key_passphrase", "passcode", "passcode_in_password", "client_session_keep_alive", "proxy_host",
    "proxy_port", "proxy_user", "proxy_password", "oauth_client_id", "oauth_client_secret", "oauth_token_request_url",
    "oauth_authorization_url", "oauth_scope", "oauth_redirect_uri", "workload_identity_provider",
    "client_store_temporary_credential", "region",
)  # fmt: skip
"""The connector's own parameters; all others of a profile are dbt's."""
_OF_DBT = {"private_key_path": "private_key_file", "username": "user"}
"""dbt's names that differ: https://docs.getdbt.com/docs/local/connect-data-platform/snowflake-setup."""
SECRET = (
    "password", "token", "private_key", "private_key_passphrase", "private_key_file_pwd", "passcode",
    "proxy_password", "oauth_client_secret",
)  # fmt: skip
"""Parameters whose values no message may hold."""


def connector() -> Any:
    """Import the connector. Raises ConfigError where it is missing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its copy of requests warns of versions that it has not seen
            import snowflake.connector
    except ImportError:
        raise ConfigError("Snowflake's client is missing: pip install 'sqlenrich[snowflake]'") from None
    return snowflake.connector


def limits(policy: ConnectPolicy, newer: bool) -> dict[str, Any]:
    """Return the limits in the words of 4.x or of 5.x. No request waits for a statement, so each has to be short."""
    connect_s, request_s = max(round(policy.connect_s), 1), max(round(policy.request_s), 1)
    if not newer:
        return {"login_timeout": connect_s, "network_timeout": request_s, "socket_timeout": connect_s}
    return {
        "login_timeout": connect_s,
        "connect_timeout": connect_s,
        "retry_timeout": connect_s,
        "query_timeout": request_s,
        "request_timeout": request_s,
        "enable_server_session_keep_alive_auto_detection": True,  # without a value it warns
    }


def parameters(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the connector's parameters for the fields of a profile. Raises ConfigError."""
    given = {_OF_DBT.get(name, name): value for name, value in fields.items() if value not in (None, "")}
    if given.get("authenticator") == "oauth" and "oauth_client_secret" in given:
        raise ConfigError(
            "snowflake: authenticator oauth with a client secret needs a refresh token's exchange: give an access "
            "token as token without oauth_client_secret, or use a key pair"
        )
    for missing in ("account", "user"):
        by_token = missing == "user" and "token" in given
        if missing not in given and not by_token and given.get("authenticator") != "workload_identity":
            raise ConfigError(f"snowflake: the profile or connection has no {missing}")
    passphrase = given.pop("private_key_passphrase", None)
    if "private_key" in given:
        given["private_key"] = re.sub(r"-----[A-Z ]+-----|\s", "", str(given["private_key"]))  # base64 of DER
        if passphrase:
            given["private_key_passphrase"] = str(passphrase).encode()
    elif passphrase:
        given.setdefault("private_key_file_pwd", str(passphrase))
    file = given.get("private_key_file")
    if file is not None and not Path(str(file)).expanduser().is_file():
        raise ConfigError(f"snowflake: private_key_path: there is no file {file}")
    if "port" in given:
        given["port"] = int(given["port"])
    return {name: value for name, value in given.items() if name in _PASSED}


def named(name: str | None) -> Mapping[str, Any]:
    """Return the fields of a connection of ``connections.toml``. Raises ConfigError."""
    connector()
    from snowflake.connector.config_manager import CONFIG_MANAGER

    try:
        chosen = name or str(CONFIG_MANAGER["default_connection_name"])
        connections = CONFIG_MANAGER["connections"]
        fields = connections.get(chosen)
        known: Iterable[str] = list(connections)
    except Exception as error:  # the connector's own errors: no file, or one that can't be read
        raise ConfigError(f"Snowflake's connections.toml: {str(error).splitlines()[0]}") from None
    if fields is None:
        raise ConfigError(f'Snowflake\'s connections.toml has no connection "{chosen}"{did_you_mean(chosen, known)}')
    return dict(fields.unwrap() if hasattr(fields, "unwrap") else fields)
