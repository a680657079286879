"""The examples of each command, as its help prints them."""

from __future__ import annotations

_COMMANDS = {
    "new": (
        "sqlenrich new tickets --from tickets.csv",
        "sqlenrich new orders --from 'shop.duckdb#orders'",
        "sqlenrich new tickets --template support_ticket --sample",
    ),
    "check": (
        "sqlenrich check tickets.prompt",
        "sqlenrich check *.prompt --engine snowflake",
    ),
    "preview": (
        "sqlenrich preview tickets.prompt --input tickets.csv --prompt-only",
        "sqlenrich preview tickets.prompt --input tickets.csv -n 3 --endpoint http://127.0.0.1:8000/v1",
    ),
    "plan": ("sqlenrich plan tickets.prompt --input tickets.csv --output out.duckdb --prices prices.toml",),
    "run": (
        "sqlenrich run tickets.prompt --input tickets.csv --output out.duckdb --mock",
        "sqlenrich run tickets.prompt --input 'day/*.csv.gz' --output out.duckdb --output out.csv --incremental",
        "sqlenrich run tickets.prompt --target prod --max-cost 20",
        "sqlenrich run tickets.prompt replies.prompt --input tickets.csv --output out.duckdb",
    ),
    "retry": (
        "sqlenrich retry tickets.prompt --output out.duckdb --reason TRUNCATED",
        "sqlenrich retry tickets.prompt --output out.duckdb --model large --max-attempts 5",
        "sqlenrich retry tickets.prompt --output out.duckdb --model large --where 'confidence < 0.8'",
    ),
    "show": (
        "sqlenrich show tickets --output out.duckdb",
        "sqlenrich show tickets --output out.duckdb --quarantine --columns id,_error,response",
    ),
    "export": (
        "sqlenrich export tickets --output out.duckdb --to tickets.parquet",
        'sqlenrich export tickets --output out.duckdb --where "urgency > 3" --to urgent.csv',
        "sqlenrich export tickets --output out.duckdb --join tickets.csv --to all.csv",
    ),
    "compare": (
        "sqlenrich compare a.prompt b.prompt --input tickets.csv --truth intent=label",
        "sqlenrich compare a.prompt --model small --model large --input tickets.csv -n 200",
    ),
    "audit": (
        "sqlenrich audit tickets.prompt --output out.duckdb",
        "sqlenrich audit tickets.prompt --output out.duckdb --row id=17",
    ),
    "forget": (
        "sqlenrich forget tickets.prompt --output out.duckdb --row id=17",
        "sqlenrich forget tickets.prompt --output out.duckdb --before 2026-01-01 --dry-run",
    ),
    "distill": (
        "sqlenrich distill tickets.prompt --output out.duckdb --field intent",
        "sqlenrich distill tickets.prompt --output out.duckdb --field intent --agreement 0.98",
    ),
    "drift": (
        "sqlenrich drift tickets.prompt --output out.duckdb",
        "sqlenrich drift tickets.prompt --output out.duckdb --accept 20260131T101500-1f2e3d4c",
    ),
    "evaluate": (
        "sqlenrich evaluate tickets.prompt --truth labels.csv --input tickets.csv --require intent=0.92",
        "sqlenrich evaluate tickets.prompt --truth sample.csv --field intent=category --model small",
    ),
    "report": (
        "sqlenrich report tickets.prompt --output out.duckdb",
        "sqlenrich report tickets.prompt --output out.duckdb --page tickets.html --no-rows",
    ),
    "review": (
        "sqlenrich review tickets.prompt --output out.duckdb --sheet review.html --reviewers ana,ben",
        "sqlenrich review tickets.prompt --output out.duckdb --read tickets.review-ana.json",
    ),
    "render": (
        "sqlenrich render tickets.prompt --engine bigquery -o tickets.sql",
        "sqlenrich render tickets.prompt --target prod --retry",
    ),
    "dbt": ("sqlenrich dbt prompts/*.prompt --project analytics --source raw.messages",),
    "probe": ("sqlenrich probe --target prod",),
    "usage": ("sqlenrich usage --output out.duckdb --prices prices.toml", "sqlenrich usage --target prod"),
    "gateway": (
        "sqlenrich gateway --output answers.duckdb --endpoint https://api.openai.com/v1 --rpm 600",
        "sqlenrich gateway --output answers.duckdb --endpoint local --max-cost 5 --prices prices.toml",
    ),
    "batches": (
        "sqlenrich batches --output out.duckdb",
        "sqlenrich batches --output out.duckdb --cancel all",
    ),
    "doctor": (
        "sqlenrich doctor",
        "sqlenrich doctor --target prod --json",
    ),
    "schema": (
        "sqlenrich schema",
        "sqlenrich schema settings",
    ),
    "completion": (
        'eval "$(sqlenrich completion bash)"',
        "sqlenrich completion zsh > ~/.zfunc/_sqlenrich",
        "sqlenrich completion fish > ~/.config/fish/completions/sqlenrich.fish",
    ),
}
EXAMPLES = {name: "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines) for name, lines in _COMMANDS.items()}
