"""Planted faults of the code, and a script that shows whether the simulation finds them.

    python -m tests.simulation.mutants [NAME ...] [--seconds 60] [--jobs 2]

Each is one change of one file, applied to a copy of the package; the seeds run over the copy until one fails. A copy
that runs on without an end counts as found.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SEEDS = 400
LONGEST_SEED_S = 60


@dataclass(frozen=True)
class Mutant:
    """``old`` occurs once in the file, and ``new`` takes its place."""

    name: str
    file: str
    old: str
    new: str

    def text(self) -> str:
        """Return the changed file. Raises ValueError where ``old`` is not there once."""
        text = (ROOT / "sqlenrich" / self.file).read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: {self.file} has this {text.count(self.old)} times: {self.old!r}")
        return text.replace(self.old, self.new)


def _mutants() -> Iterator[Mutant]:
    for file, changes in CHANGES.items():
        for number, (old, new) in enumerate(changes, 1):
            yield Mutant(f"{Path(file).stem}-{number}", file, old, new)


CHANGES: dict[str, list[tuple[str, str]]] = {
    "llm/client.py": [
        ("                outstanding -= len(batch)\n", ""),
        ("                        if stream.add(request):\n", "                        if not stream.add(request):\n"),
        ("                        self._post(stream.no_more)\n", ""),
        ("                if isinstance(batch, StreamEnd):\n                    if batch.error is not None:\n"
         "                        raise batch.error\n                    return\n",
         "                if isinstance(batch, StreamEnd):\n                    return\n"),
        ("            self._post(stream.start)\n", "            self._post(stream.feed)\n"),
        ("                if self._stops > 1:\n                    task.cancel()\n",
         "                if self._stops > 5:\n                    task.cancel()\n"),
        ("            stream.wind_down()\n", "            pass\n"),
        ("        self._stops += 1\n        self._post(self._on_stop)\n", "        self._stops += 1\n"),
    ],
    "llm/stream.py": [
        ("        self._batch.append(answer)\n", ""),
        ("            self._outbox.put(self._batch)\n            self._batch = []\n", "            self._batch = []\n"),
        ("        self._flush()\n        self._ended = True\n", "        self._ended = True\n"),
        ("        if self._ended:\n            return\n        self._flush()\n", "        self._flush()\n"),
        ("            self.workers -= 1\n", ""),
        ("                    if self._doubtful:\n                        self._release_doubtful()\n", ""),
        ("        self._queue.clear()\n        for task in tuple(self._tasks):\n            task.cancel()\n",
         "        self._queue.clear()\n"),
        ("        return self.workers == 0", "        return self.workers == 0"),
        ("            elif len(self._doubtful) == self.workers:\n                self._release_one()\n", ""),
        ("        if self.workers == 0 and (self.closing or (self._all_read and not self._queue)):\n",
         "        if self.workers == 0 and (self.closing or self._all_read):\n"),
        ("        if self.workers == 0 and (self.closing or (self._all_read and not self._queue)):\n",
         "        if self.closing or (self._all_read and not self._queue):\n"),
        ("        self._outbox.put(StreamEnd(self._error))", "        self._outbox.put(StreamEnd(None))"),
        ("            self._limiter.stop(self._tasks)\n", "            pass\n"),
        ("                request = queue.popleft()\n", "                request = queue[0]\n"),
        ("                if not queue or self.closing:\n", "                if not queue:\n"),
        ("                self._answered(answer)\n                if not queue",
         "                self._answered(answer)\n                self._answered(answer)\n                if not queue"),
        ("            self.wind_down(error)\n        finally:\n", "            pass\n        finally:\n"),
        ("        self._grace_timer = asyncio.get_running_loop().call_later(self._policy.grace_s, self.cancel)\n", ""),
        ("            task = asyncio.get_running_loop().create_task(self._work(self._queue.popleft()))\n",
         "            task = asyncio.get_running_loop().create_task(self._work(self._queue.pop()))\n"
         "            self._queue and self._queue.pop()\n"),
    ],
    "llm/health.py": [
        ("            self.paused -= 1\n", ""),
        ("        self._failing_since = since if self._failing_since is None else min(self._failing_since, since)\n", ""),
        ("        self._succeeded_at = runtime.monotonic()\n        self._failing_since = None\n",
         "        self._succeeded_at = runtime.monotonic()\n"),
        ("        timer = loop.call_later(seconds, _settle, done, True)\n",
         "        timer = loop.call_later(1e9, _settle, done, True)\n"),
        ("            if not await done:\n                raise Stopped\n", "            await done\n"),
        ("            if self._stop.covers(task):\n                _settle(pause, False)\n",
         "            if self._stop.covers(task):\n                pass\n"),
    ],
    "llm/endpoint/model.py": [
        ("                limiter.release(permit, begun=True)\n", "                pass\n"),
        ("                limiter.answered(permit, result.tokens_in, result.tokens_out, result.tokens_cached)\n",
         "                limiter.answered(permit, 0, 0, 0)\n"),
        ("                limiter.refused(permit, result.wait_s)\n", ""),
        ("                limiter.failed(permit, unreachable=result.unreachable, timeout=result.timeout,"
         " begun=result.begun)\n", ""),
        ("            self.health.failed(started, result.text)\n", ""),
        ("            await self.health.pause(wait_s + (0.0 if elsewhere else self._backoff(calls - 1)))\n", ""),
        ("retryable=failure is not None and failure.fault is Fault.TRANSIENT and not reply.spent",
         "retryable=False"),
        ("retryable=failure is not None and failure.fault is Fault.TRANSIENT and not reply.spent",
         "retryable=failure is None"),
        ("            request_hash=request.request_hash,\n", "            request_hash=request.request_hash[::-1],\n"),
        ("            attempt=request.attempt,\n", "            attempt=request.attempt + 3,\n"),
        ("                self.health.succeeded()\n                if result.tokens_in is not None:\n",
         "                if result.tokens_in is not None:\n"),
        ("            self.limiter.mark_up(endpoint)\n", ""),
        ("        if response.status != 200:\n            latency_s", "        if response.status > 599:\n            latency_s"),
        ("            response=done.text,\n", "            response=None,\n"),
        ("        return self._answers((request,), reply)[0]\n",
         "        await asyncio.sleep(0)\n        return self._answers((request,), await self._post(request.request_hash, "
         "(request.prompt,), self.config.max_tries, probing=False))[0]\n"),
        ("            calls += 1\n            try:\n", "            try:\n"),
        ("        return count >= self.policy.timeouts\n", "        return False\n"),
        ("            tokens_out=done.tokens_out,\n", "            tokens_out=None,\n"),
    ],
    "llm/endpoint/http.py": [
        ("        if connection.reusable:\n            connection.idle_since", "        if True:\n            connection.idle_since"),
        ("        waiter.set_result(HttpResponse(self._status, self._reason.decode(\"latin-1\"), self._headers, body))\n"
         "        self._reset()\n",
         "        waiter.set_result(HttpResponse(self._status, self._reason.decode(\"latin-1\"), self._headers, body))\n"),
        ("        if now - self._heard >= self._timeout_s:\n", "        if False:\n"),
        ("            connection.check(now)\n", "            pass\n"),
        ("        self._transport = None\n        self._among", "        self._among"),
        ("        if self._waiter is None:\n            return\n        framed", "        return\n        framed"),
        ("            self._fail(HttpError(\"the answer broke off\"))\n", "            pass\n"),
        ("            self._fail(HttpError(\"connection closed before the answer\"))\n\n    # What the parser",
         "            pass\n\n    # What the parser"),
        ("            self._fail(HttpError(\"the answer is not HTTP\"))\n", ""),
        ("        self._busy[connection] = None\n", ""),
        ("        except BaseException:\n            connection.close()\n            raise\n        finally:\n",
         "        except BaseException:\n            self._idle.append(connection)\n            raise\n        finally:\n"),
        ("                await loop.create_connection(lambda: connection, sock=sock, ssl=route.tls, server_hostname=name)\n"
         "        except BaseException as error:\n",
         "                await loop.create_connection(lambda: connection, sock=sock, ssl=route.tls, server_hostname=name)\n"
         "        except ValueError as error:\n"),
        ("        waiter, self._waiter = self._waiter, None\n        if waiter is None or waiter.done():\n",
         "        waiter = self._waiter\n        if waiter is None or waiter.done():\n"),
    ],
    "llm/endpoint/canary.py": [
        ("            await self._limiter.count_without_permit(len(state.body))\n", "            pass\n"),
        ("        budget.sent(cost)\n", ""),
        ("        if budget.allows(cost) is not True:\n            return False\n", ""),
        ("            self._settle(state.body, completion)\n", "            pass\n"),
    ],
    "llm/throttle/limiter.py": [
        ("        endpoint.in_flight -= 1\n        self.in_flight -= 1\n        if self._waiting:\n",
         "        endpoint.in_flight -= 1\n        if self._waiting:\n"),
        ("        endpoint.in_flight -= 1\n        self.in_flight -= 1\n        if self._waiting:\n",
         "        self.in_flight -= 1\n        if self._waiting:\n"),
        ("        self.in_flight -= 1\n        if self._waiting:\n            self._grant()\n",
         "        self.in_flight -= 1\n        if not self._waiting:\n            self._grant()\n"),
        ("        if self._waiting and wait_s > 0:\n            self._timer", "        if False:\n            self._timer"),
        ("            for name, bucket in self._buckets.items():\n                bucket.take(amounts[name], now)\n        endpoint",
         "            pass\n        endpoint"),
        ("            budget.sent(cost)\n        if self._buckets", "            pass\n        if self._buckets"),
        ("            if not allowed:\n                self._report_budget_spent()\n                raise Stopped\n", ""),
        ("        if self.fixed is not None and self.in_flight >= self.fixed:\n",
         "        if self.fixed is not None and self.in_flight > 2 * self.fixed:\n"),
        ("            self.budget.settled(permit.cost, tokens_in, tokens_out, cached)\n", "            pass\n"),
        ("            self.budget.settled(permit.cost, tokens_in, tokens_out, cached)\n",
         "            self.budget.settled(permit.cost, 0, 0, 0)\n"),
        ("            endpoint.up = not endpoint.disabled\n            endpoint.failures",
         "            endpoint.up = False\n            endpoint.failures"),
        ("                endpoint.up = False\n                self.on_down(endpoint)\n", "                endpoint.up = False\n"),
        ("        endpoint.up, endpoint.unreached = True, 0\n", "        endpoint.unreached = 0\n"),
        ("            endpoint.blocked_until = max(endpoint.blocked_until, now + wait_s)\n",
         "            endpoint.blocked_until = now + 1e6\n"),
        ("            waiting.set_result(permit)\n        self._cancel_timer()\n", "        self._cancel_timer()\n"),
        ("            if not waiting.done():\n                waiting.set_exception(Stopped())\n", "            pass\n"),
        ("        self._return(permit, now, begun)\n        self._free(permit.endpoint, now)\n",
         "        self._return(permit, now, begun)\n"),
        ("            self._ahead -= 1\n            self._grant()\n", "            self._grant()\n"),
        ("        used = None if begun else 0\n", "        used = 0\n"),
    ],
    "llm/throttle/budget.py": [
        ("        if self.max_calls is not None and self.calls >= self.max_calls:\n",
         "        if self.max_calls is not None and self.calls > self.max_calls:\n"),
        ("        self.calls += 1\n        self.open += 1\n", "        self.open += 1\n"),
        ("        self.calls += 1\n        self.open += 1\n", "        self.calls += 1\n"),
        ("        self.open -= 1\n        self.reserved -= reserved\n", "        self.open -= 1\n"),
        ("        self.reserved += cost\n", ""),
        ("            self.spent += self.price(tokens_in, tokens_cached or 0, tokens_out)\n", "            pass\n"),
        ("            if self.open:\n                return None\n", "            if self.open:\n                return True\n"),
        ("            if self.open:\n                return None\n", "            return None\n"),
    ],
    "llm/throttle/token_bucket.py": [
        ("        self._used += units\n", ""),
        ("        self.level = min(self.room, self.level - units)\n", ""),
        ("            self._used -= self._seconds.popleft()[1]\n", "            self._seconds.popleft()\n"),
        ("SHARE = 0.98\n", "SHARE = 0.001\n"),
    ],
    "llm/throttle/circuit_breaker.py": [
        ("            self.is_open, self._refused_from, self._closed_at = False, None, now\n",
         "            self._refused_from, self._closed_at = None, now\n"),
        ("            self.until = now + policy.first_probe_s\n        return False\n",
         "            self.until = now + 1e7\n        return False\n"),
    ],
    "llm/throttle/load_balancer.py": [
        ("            if not endpoint.up:\n                continue\n", "            if endpoint.up:\n                continue\n"),
        ("        return None, reason, 0.0 if wait_s == math.inf else wait_s\n", "        return None, reason, 0.0\n"),
    ],
    "ask/client.py": [
        ("        self.backend.append(self.plan, answers, self.origin)\n", ""),
        ("        self.backend.append(self.plan, answers, self.origin)\n",
         "        self.backend.append(self.plan, answers[:-1] or answers, self.origin)\n"),
        ("        self.backend.append(self.plan, answers, self.origin)\n",
         "        self.backend.append(self.plan, answers, self.origin)\n"
         "        self.backend.append(self.plan, answers, self.origin)\n"),
        ("        self.retryable += sum(answer.retryable for answer in answers)\n", ""),
        ("            self.requests = (request for request in self.requests if request.request_hash not in asked)\n",
         "            pass\n"),
        ("        self._store(answers)\n        self.progress.check_first", "        self.progress.check_first"),
        ("            self._store(batch)\n", "            self._store(batch[1:])\n"),
        ("        if few is None:\n            self.left = 0\n", ""),
        ("        few = most if self._few else None\n", "        few = most\n"),
        ("            client.stop()\n\n    def stopping", "            pass\n\n    def stopping"),
        ("            unstored=commits.unstored,\n", "            unstored=100 * commits.unstored,\n"),
    ],
    "ask/rounds.py": [
        ("                while repeat and asker.retryable and not asker.ended:\n", "                while False:\n"),
        ("            self.stopper.watch(asker)\n", ""),
        ("        while asker.left and not asker.ended:\n", "        while asker.left and asker.ended:\n"),
        ("                    if not (pending := self.backend.refresh(self.plan, call, None, "
         "ordered=choice.prefix_order)):\n                        break\n",
         "                    pending = pending or 1\n"),
        ("            choice.budget.price = choice.price.exact  # models of one run may share a budget\n", "            pass\n"),
    ],
    "store/duckdb/answers.py": [
        ("    digits = \"\".join(\"1\" if value else \"0\" for value in reversed(values))\n",
         "    digits = \"\".join(\"1\" if value else \"0\" for value in values)\n"),
        ("        texts = [value or \"\" for value in values] if known else values\n",
         "        texts = sorted(value or \"\" for value in values) if known else values\n"),
        ("    known = _bits([value is not None for value in values]) if None in values else None\n",
         "    known = None\n    values = [value or 0 for value in values]\n"),
    ],
    "store/duckdb/backend.py": [
        ("        self.database.db.execute(self._insert_of(plan))\n", "        pass\n"),
        ("                    exp.LT(this=exp.column(\"rowid\"), expression=literal(start + self.policy.page_rows)),\n",
         "                    exp.LT(this=exp.column(\"rowid\"), expression=literal(100)),\n"),
        ("                    exp.GTE(this=exp.column(\"rowid\"), expression=literal(start)),\n",
         "                    exp.GT(this=exp.column(\"rowid\"), expression=literal(start)),\n"),
        ("        for name in (\"enriched\", \"quarantine\"):\n            self.run_step(plan.step(name))\n        self.database.commit()\n",
         "        for name in (\"enriched\",):\n            self.run_step(plan.step(name))\n        self.database.commit()\n"),
    ],
    "store/backend.py": [
        ("        if rows != good + bad:\n", "        if rows == good + bad:\n"),
        ("        self.begin(start, known=False)  # until the prompts are made it is unknown whose they are\n",
         "        self._create(plan.step(\"prompts\"), \"responses\", plan.step(\"prompts\").query)\n"),
        ("        self.ledger.record(start, status, facts)\n", ""),
    ],
    "runner/run.py": [
        ("            rounds.ask(session.model, plan.responses, counts.pending, repeat=caps.max_rows is None)\n",
         "            rounds.ask(session.model, plan.responses, counts.pending, repeat=False)\n"),
        ("            failure = error\n    with raising_first(failure):\n", "            failure = None\n    with raising_first(failure):\n"),
        ("    counts = backend.prepare(plan, start, limit=caps.max_rows, ordered=ordered, beside=beside)\n",
         "    counts = backend.prepare(plan, start, limit=50, ordered=ordered, beside=beside)\n"),
    ],
}  # fmt: skip
"""Changes of each file: a text that occurs once, and what takes its place."""
MUTANTS = [one for one in _mutants() if one.old != one.new]


def seconds_until_found(mutant: Mutant, most_s: float) -> float | None:
    """Return after how many seconds a seed failed over the changed package; None where none did."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        folder = Path(name)
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "sqlenrich", folder / "sqlenrich", ignore=ignored)
        shutil.copytree(ROOT / "tests" / "simulation", folder / "tests" / "simulation", ignore=ignored)
        (folder / "tests" / "__init__.py").touch()
        (folder / "sqlenrich" / mutant.file).write_text(mutant.text(), encoding="utf-8")
        command = [sys.executable, "-m", "tests.simulation", "--seeds", str(SEEDS), "--jobs", "1", "--until-failed"]
        began = time.monotonic()
        done = subprocess.Popen(
            [*command, "--most-seconds", str(most_s)], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(folder)}, start_new_session=True,
        )  # fmt: skip
        try:
            status = done.wait(most_s + LONGEST_SEED_S)
        except subprocess.TimeoutExpired:
            os.killpg(done.pid, 9)
            done.wait()
            status = 1
        return time.monotonic() - began if status else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    chosen = [one for one in MUTANTS if not given.names or one.name in given.names]
    with ThreadPoolExecutor(given.jobs) as pool:
        found = pool.map(lambda one: (one, seconds_until_found(one, given.seconds)), chosen)
        count = 0
        for mutant, seconds in found:
            count += seconds is not None
            print(f"{mutant.name:<20} {'NOT FOUND' if seconds is None else f'{seconds:.0f} s'}", flush=True)
    print(f"{count} of {len(chosen)} found")
    return 0 if count == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
