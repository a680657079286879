#!/usr/bin/env bash
# Enriches the file of one day: daily_job.sh 2026-01-31, or without an argument that of today. For cron:
#   15 6 * * *  /srv/tickets/daily_job.sh >> /srv/tickets/daily_job.log 2>&1
set -u
cd "$(dirname "$0")"
day=${1:-$(date +%F)}

enrich() {
    sqlenrich "$@" --output tickets.duckdb --output tickets.csv --max-calls 5000 --yes --log json
}

# Rows of the same id are replaced, all others stay. Answers that are stored already cost nothing.
enrich run tickets.prompt --input "inbox/$day.csv" --incremental
status=$?

# 3: more rows were refused than max_quarantine allows. Ask them once more, then leave them to a person.
if [ "$status" -eq 3 ]; then
    enrich retry tickets.prompt
    status=$?
fi

case $status in
    0) echo "$day: done" ;;
    3) echo "$day: too many refused; see sqlenrich show tickets --quarantine --output tickets.duckdb" >&2 ;;
    4) echo "$day: stopped before the end; the same command goes on" >&2 ;;
    *) echo "$day: failed with status $status" >&2 ;;
esac
exit "$status"
