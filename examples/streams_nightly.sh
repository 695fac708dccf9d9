#!/bin/sh
# Make memories of all event streams that are due: a job for cron, once a night or every minute.
#
#     */5 * * * *  MEMORYPIPE_TABLE=/srv/memories /srv/streams_nightly.sh
#
# Services ingest all day long (`memorypipe ingest`, or `EventStreams.ingest_events`); what is
# pending waits until its trigger is met. Two of these jobs at once are safe: neither takes what
# the other is at. One that was killed is taken over by the next, and nothing is done twice.
#
# Exit codes: 0 all is well, also where nothing was due; 3 some streams failed: their events stay
# pending and the next flush tries them again; anything else: the command could not run.
set -eu

table=${MEMORYPIPE_TABLE:-./memories}
log=${MEMORYPIPE_FLUSH_LOG:-"$table/flush.jsonl"}

# The model comes from memorypipe.toml or MEMORYPIPE_ENDPOINT; give --offline for the rules.
code=0
memorypipe flush --table "$table" --json "$@" >>"$log" || code=$?

if [ "$code" -ne 0 ]; then
    echo "memorypipe flush ended with $code; the last line of $log says why" >&2
fi
exit "$code"
