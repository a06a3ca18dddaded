#!/usr/bin/env bash
# Inserts by psql, which is told all hosts: each run goes to the first that takes writes.
set -euo pipefail
target="host=$HOSTS port=$PORTS user=tally dbname=tally target_session_attrs=read-write connect_timeout=5"
target="$target options='-c tally.catch_up_timeout=2s -c tally.commit_timeout=5s'"
ends=$((SECONDS + LOAD_SECONDS))
longest=0
at=""
for ((id = 0; SECONDS < ends; id++)); do
    began=$SECONDS
    until said=$(psql -X -q -v ON_ERROR_STOP=1 "$target" \
        -c "SET tally.transaction_key = 'psql $id'" \
        -c "INSERT INTO told_psql VALUES ($id)" -c '\echo :PORT' 2>&1); do
        # It was in the ledger when its answer was lost, and is not run again.
        [[ $said == *"this key"* ]] && said=$at && break
        echo "again: $said" >&2
        ((SECONDS - began < 30)) || exit 1
        sleep 0.1
    done
    # The port of the node that took it.
    [[ -z $at || $said == "$at" ]] || echo "reconnected: to $said" >&2
    at=$said
    waited=$((SECONDS - began))
    [ $waited -le $longest ] || longest=$waited
    echo "$id"
done
echo "longest wait: $longest" >&2
