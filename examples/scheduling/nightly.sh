#!/bin/sh
# A nightly run over logs that grow: nightly.sh LOGS...
#
# A second start while one is still at work on the same messages is refused, and says who it is.
# Needs MEMORYPIPE_TABLE, and an endpoint: MEMORYPIPE_ENDPOINT names one of memorypipe.toml, or
# MEMORYPIPE_NIGHTLY_OPTIONS says how to reach it.
set -u

since=$(date -u -d "${MEMORYPIPE_DAYS:-2} days ago" +%Y-%m-%d)
record=$(mktemp)
trap 'rm -f "$record"' EXIT

# shellcheck disable=SC2086  # the options are words
memorypipe backfill "$@" --since "$since" --label "night=$(date -u +%Y-%m-%d)" \
  --budget "$(date -u +%Y-%m)" --max-failed 1% --json \
  ${MEMORYPIPE_NIGHTLY_OPTIONS:-} >"$record"
code=$?

case $code in
0) ;;
3) echo "Some windows stay open; the next night takes them up." >&2 ;;
4) echo "Stopped at a bound, or most calls fail; the same command goes on." >&2 ;;
5) echo "A guard or a conflict held something back: memorypipe runs" >&2 ;;
*) echo "The run failed with exit code $code." >&2 ;;
esac
cat "$record"
exit "$code"
