"""Google's credentials from the fields of a dbt profile, or from where Google's own tools find them.

The methods and the names of their fields are those of dbt-bigquery 1.12:
https://docs.getdbt.com/docs/core/connect-data-platform/bigquery-setup.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sqlenrich.core.errors import ConfigError, did_you_mean

SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
TOKEN_URI = "https://oauth2.googleapis.com/token"
LOGIN = "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to a key file"
SECRET_FIELDS = ("token", "refresh_token", "client_secret", "keyfile_json")


def credentials_of(fields: Mapping[str, Any]) -> tuple[Any, str | None]:
    """Return the credentials that a profile describes, and the project they name.

    Raises ConfigError for what is missing or unreadable.
    """
    method = str(fields.get("method") or "oauth")
    make = METHODS.get(method)
    if make is None:
        known = ", ".join(METHODS)
        raise ConfigError(f'BigQuery: unknown method "{method}"{did_you_mean(method, METHODS)}; known are {known}')
    scopes = list(fields.get("scopes") or SCOPES)
    credentials, project = make(fields, scopes)
    if principal := fields.get("impersonate_service_account"):
        from google.auth import impersonated_credentials

        credentials = impersonated_credentials.Credentials(
            source_credentials=credentials, target_principal=str(principal), target_scopes=scopes
        )
    if (quota_project := fields.get("quota_project")) and hasattr(credentials, "with_quota_project"):
        credentials = credentials.with_quota_project(quota_project)
    return credentials, project


def secrets_of(fields: Mapping[str, Any]) -> list[str]:
    """Return the texts of a profile that no message may hold."""
    found: list[str] = []
    for name in SECRET_FIELDS:
        value = fields.get(name)
        parts = value.values() if isinstance(value, Mapping) else [value]
        found += [str(part) for part in parts if part]
    return [text for text in found if len(text) > 3]


def _default(fields: Mapping[str, Any], scopes: list[str]) -> tuple[Any, str | None]:
    import google.auth
    from google.auth.exceptions import DefaultCredentialsError

    try:
        found: tuple[Any, str | None] = google.auth.default(scopes=scopes, quota_project_id=fields.get("quota_project"))
    except DefaultCredentialsError as error:
        text = str(error).splitlines()[0]
        if "were not found" in text:
            text = "no Application Default Credentials were found"
        raise ConfigError(f"BigQuery: {text}; {LOGIN}") from None
    return found


def _secrets(fields: Mapping[str, Any], scopes: list[str]) -> tuple[Any, str | None]:
    from google.oauth2.credentials import Credentials

    token, refresh = fields.get("token"), fields.get("refresh_token")
    needed = ("client_id", "client_secret") if refresh else ("token",)
    if missing := [name for name in needed if not fields.get(name)]:
        what = "token, or refresh_token with client_id and client_secret" if not refresh else " and ".join(missing)
        raise ConfigError(f"BigQuery: method oauth-secrets needs {what} in the profile")
    if not refresh:
        return Credentials(token), None
    made = Credentials(
        token,
        refresh_token=refresh,
        token_uri=fields.get("token_uri") or TOKEN_URI,
        client_id=fields.get("client_id"),
        client_secret=fields.get("client_secret"),
        scopes=scopes,
    )
    return made, None


def _keyfile(fields: Mapping[str, Any], scopes: list[str]) -> tuple[Any, str | None]:
    if not fields.get("keyfile"):
        raise ConfigError("BigQuery: method service-account needs keyfile, the path of the key, in the profile")
    path = Path(str(fields["keyfile"])).expanduser()
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"BigQuery: keyfile {path}: {error.strerror}; mend keyfile in the profile") from None
    return _account(text, f"keyfile {path}", scopes)


def _keyfile_json(fields: Mapping[str, Any], scopes: list[str]) -> tuple[Any, str | None]:
    given = fields.get("keyfile_json")
    if not given:
        raise ConfigError("BigQuery: method service-account-json needs keyfile_json in the profile")
    if isinstance(given, str) and not given.lstrip().startswith("{"):
        try:
            given = base64.b64decode(given, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise ConfigError("BigQuery: keyfile_json is neither a mapping, nor JSON, nor JSON in base64") from None
    return _account(given, "keyfile_json", scopes)


def _account(given: Any, what: str, scopes: list[str]) -> tuple[Any, str | None]:
    from google.auth.exceptions import GoogleAuthError
    from google.oauth2 import service_account

    try:
        info = json.loads(given) if isinstance(given, str) else dict(given)
        # A line break of a private key is often written as two characters in YAML and in environment variables.
        if isinstance(info.get("private_key"), str):
            info["private_key"] = info["private_key"].replace("\\n", "\n")
        made = service_account.Credentials.from_service_account_info(info, scopes=scopes)
    except json.JSONDecodeError:
        raise ConfigError(f"BigQuery: {what} is not JSON; download the key of the service account again") from None
    except (ValueError, TypeError, AttributeError, GoogleAuthError):
        raise ConfigError(f"BigQuery: {what} is not the key of a service account; download it again") from None
    return made, made.project_id


Make = Callable[[Mapping[str, Any], list[str]], tuple[Any, str | None]]
METHODS: Mapping[str, Make] = {
    "oauth": _default,
    "oauth-secrets": _secrets,
    "service-account": _keyfile,
    "service-account-json": _keyfile_json,
}
