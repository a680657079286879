"""What a person should know of the endpoints of a run, one line each."""

from __future__ import annotations

from collections.abc import Sequence

from sqlenrich.core import runtime
from sqlenrich.llm.endpoint.truncation import TruncationDetector
from sqlenrich.llm.throttle.quota import QuotaFinding


class EndpointWarnings:
    """Writes warnings to ``lines``. An endpoint is named by the place of its URL."""

    def __init__(self, shown: Sequence[str], *, down_every_s: float) -> None:
        self.lines: list[str] = []
        self._shown = shown
        self._down_every_s = down_every_s
        self._down_at: dict[int, float] = {}
        self._truncation = TruncationDetector()

    @property
    def _several(self) -> bool:
        return len(self._shown) > 1

    def add(self, number: int, text: str) -> None:
        """Write a line of an endpoint."""
        self.lines.append(f"{self._shown[number]} {text}")

    def quota_found(self, number: int, setting: str, a_minute: int) -> None:
        """Warn of a limit that the endpoint's headers tell."""
        what = "requests" if setting == "rpm" else f"{setting.removesuffix('tpm').replace('_', ' ')}tokens"
        todo = "" if self._several else f"; {setting} = {a_minute} in its settings begins there"
        self.add(number, f"allows about {a_minute:,} {what} a minute{todo}")

    def quota_estimated(self, number: int, finding: QuotaFinding, rpm: int | None, *, fixed: bool) -> None:
        """Warn of a limit that its refusals show."""
        self.add(number, finding.to_text(rpm, alone=not self._several, fixed=fixed))

    def disabled(self, why: str) -> None:
        """Warn of an endpoint that gets no further request."""
        self.lines.append(f"warning: {why}; this run goes on without it")

    def down(self, number: int, failure: str) -> bool:
        """Warn of an endpoint that can't be reached while others can, now and then; give whether it was told."""
        told = self._several and runtime.monotonic() - self._down_at.get(number, float("-inf")) > self._down_every_s
        if told:
            self._down_at[number] = runtime.monotonic()
            self.add(number, f"can't be reached ({failure}): its requests go elsewhere")
        return told

    def count_tokens(self, number: int, prompts: Sequence[str], tokens_in: int) -> None:
        """Warn once of an endpoint that truncates prompts."""
        if (ours := self._truncation.observe(sum(map(len, prompts)), tokens_in)) is not None:
            self.lines.append(
                f"warning: {self._shown[number]} counts {tokens_in:,} tokens for a prompt of about {ours:,}; it seems "
                "to cut long prompts without a word (Ollama: num_ctx); raise its context, or set max_input_tokens"
            )
