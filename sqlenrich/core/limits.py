"""The limits that a user sets: requests at a time, requests and tokens a minute."""

from __future__ import annotations

from dataclasses import dataclass, fields

from sqlenrich.core.errors import ConfigError


@dataclass(frozen=True)
class Limits:
    """Requests in flight (None: found by trying), requests and tokens a minute (None: no limit)."""

    concurrency: int | None = None
    rpm: int | None = None
    tpm: int | None = None
    input_tpm: int | None = None
    output_tpm: int | None = None

    def share(self, n: int) -> Limits:
        """Return what one of ``n`` processes may use, so that all of them together keep these limits.

        A share is rounded down. Raises ConfigError where a share would be less than 1.
        """
        if n < 1:
            raise ConfigError(f"limits are shared by 1 or more processes, not {n}")
        shares: dict[str, int] = {}
        for field in fields(self):
            if (limit := getattr(self, field.name)) is not None:
                if limit < n:
                    raise ConfigError(f"{field.name} = {limit} is too small for {n} processes: use at most {limit}")
                shares[field.name] = limit // n
        return Limits(**shares)


PER_MINUTE = tuple(field.name for field in fields(Limits) if field.name != "concurrency")
"""The limits a minute; each has a token bucket."""
