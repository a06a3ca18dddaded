#!/usr/bin/env bash
# Three nodes keep a ledger, and drivers that know all three by their own multi-host strings go on
# while one node after the other is killed: nothing that they were told is lost, nothing runs twice.
#
#   tests/clients/failover.sh CLIENT …      psql, psycopg, pgjdbc; by default all
#
# TALLY names the program, PYTHON one that has psycopg, PGJDBC the jar.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# -gt 0 ] || set -- psql psycopg pgjdbc
work=$(mktemp -d)
node_ids=()
finish() {
    for id in "${node_ids[@]}"; do kill -9 "$id" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT

export PORT=$((20000 + RANDOM % 10000))
export HOSTS=127.0.0.1,127.0.0.1,127.0.0.1 PORTS=$PORT,$((PORT + 3)),$((PORT + 6))
# How long a client inserts.
export LOAD_SECONDS=14

start_node() { # NUMBER
    "$TALLY" serve --data "$work/all/node-$1" >"$work/ready-$1" 2>>"$work/log-$1" &
    node_ids[$1]=$!
    disown "${node_ids[$1]}"
    for _ in $(seq 300); do
        grep -q READY "$work/ready-$1" && return
        sleep 0.1
    done
    cat "$work/log-$1" >&2
    echo "node $1 did not start" >&2
    return 1
}

# Rows, or nothing where no node answers.
ask() { # QUERY
    psql -X -A -t "host=$HOSTS port=$PORTS user=tally dbname=tally connect_timeout=5" -c "$1"
}

run_client() { # CLIENT: prints a line for each id that it was told is in the ledger
    case $1 in
        psql) bash "$here/psql/failover.sh" ;;
        psycopg) "$PYTHON" "$here/psycopg/failover.py" ;;
        pgjdbc) java -cp "$PGJDBC" "$here/pgjdbc/Failover.java" ;;
    esac
}

"$TALLY" cluster init --folder "$work/all" --nodes 3 --port "$PORT" >/dev/null
for node in 1 2 3; do start_node $node & done
wait
for node in 1 2 3; do
    # Of the shells that started them nothing is known here.
    node_ids[$node]=$(pgrep -f "serve --data $work/all/node-$node\$")
done
for client in "$@"; do
    ask "CREATE TABLE told_$client (id bigint PRIMARY KEY)" >/dev/null
    run_client "$client" >"$work/told" 2>"$work/said" &
    client_id=$!
    # The first that answers is the one that a client is at; it goes on to the next.
    for node in 1 2; do
        sleep 3
        kill -9 "${node_ids[$node]}"
        sleep 2
        start_node $node
    done
    wait $client_id || { cat "$work/said" >&2; exit 1; }
    told=$(sort -un "$work/told" | wc -l)
    # More may be there: what the last answer would have told.
    ask "SELECT id FROM told_$client" | sort -un >"$work/there"
    lost=$(sort -u "$work/told" | comm -23 - <(sort -u "$work/there") | wc -l)
    moves=$(grep -c '^reconnected' "$work/said" || true)
    longest=$(sed -n 's/^longest wait: //p' "$work/said")
    echo "$client: $told told, $lost lost, $moves moves, longest wait $longest s"
    [ "$lost" -eq 0 ] && [ "$told" -ge 20 ] && [ "$moves" -ge 1 ] || exit 1
done
