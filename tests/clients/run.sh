#!/usr/bin/env bash
# Runs one transaction test through each driver, and has them read a schema; those that know several
# hosts go on while nodes of a cluster are killed (failover.sh), unless a server is named.
#
#   tests/clients/run.sh                        starts a node of its own on an empty folder
#   tests/clients/run.sh HOST:PORT [USER [DB]]  uses the server that listens there
#
# CLIENTS="psql psycopg" picks some of them. PROGRAMS names the folder where cargo has put the
# programs of a build that is to be tested; without it they are built. Exit code 0 only if all pass.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
: "${CLIENTS:=psql psycopg asyncpg sqlalchemy pgjdbc node-postgres tokio-postgres}"
# Installed drivers live outside of the working tree's tracked files, and stay for the next run.
: "${CLIENTS_CACHE:=$root/target/clients}"
PGJDBC_VERSION=42.7.4
mkdir -p "$CLIENTS_CACHE"

run_cargo() { (cd "$root" && cargo "$@"); }

node_id=""
postgres_id=""
work=""
postgres_work=""
finish() {
    [ -z "$node_id" ] || { kill "$node_id" 2>/dev/null || true; wait "$node_id" || true; }
    [ -z "$postgres_id" ] || { kill -INT "$postgres_id" 2>/dev/null || true; wait "$postgres_id" || true; }
    rm -rf ${work:+"$work"} ${postgres_work:+"$postgres_work"}
}
trap finish EXIT

tally="${PROGRAMS:-${CARGO_TARGET_DIR:-$root/target}/debug}/tally"

start_node() {
    work=$(mktemp -d)
    [ -n "${PROGRAMS:-}" ] || run_cargo build --quiet --package node
    local port=$((20000 + RANDOM % 20000))
    "$tally" serve --data "$work/data" --listen "127.0.0.1:$port" --http-listen '' \
        >"$work/ready" 2>"$work/log" &
    node_id=$!
    for _ in $(seq 200); do
        grep -q READY "$work/ready" && { address="127.0.0.1:$port"; return; }
        kill -0 "$node_id" 2>/dev/null || break
        sleep 0.1
    done
    cat "$work/log" >&2
    echo "the node did not start" >&2
    exit 1
}

is_own=""
if [ $# -ge 1 ]; then address=$1; else is_own=1; start_node; fi
user=${2:-tally}
database=${3:-tally}
export PGHOST=${address%:*} PGPORT=${address##*:} PGUSER=$user PGDATABASE=$database
export CLIENT_URL="postgresql://$user@$address/$database"

# A PostgreSQL server for dumps to travel to and from, unless POSTGRES_URL names one.
start_postgres() {
    local bin port as_postgres=()
    bin=$(compgen -G '/usr/lib/postgresql/*/bin' | sort -V | tail -1)
    [ -x "$bin/initdb" ] || { echo "no PostgreSQL server: scripts/install-deps postgres" >&2; return 1; }
    postgres_work=$(mktemp -d)
    mkdir "$postgres_work/data"
    # PostgreSQL refuses to run as root.
    if [ "$(id -u)" -eq 0 ]; then
        as_postgres=(setpriv --reuid postgres --regid postgres --clear-groups)
        chmod 755 "$postgres_work"
        chown postgres "$postgres_work/data"
    fi
    "${as_postgres[@]}" "$bin/initdb" -D "$postgres_work/data" -U tally -A trust \
        --encoding UTF8 --locale C >/dev/null
    port=$((21000 + RANDOM % 10000))
    "${as_postgres[@]}" "$bin/postgres" -D "$postgres_work/data" -p $port -k "$postgres_work/data" \
        -c fsync=off >"$postgres_work/log" 2>&1 &
    postgres_id=$!
    POSTGRES_URL="postgresql://tally@127.0.0.1:$port/postgres"
    for _ in $(seq 100); do
        psql -X -q -d "$POSTGRES_URL" -c 'SELECT 1' >/dev/null 2>&1 && return
        sleep 0.1
    done
    cat "$postgres_work/log" >&2
    return 1
}

case " $CLIENTS " in
    *" psql "*) [ -n "${POSTGRES_URL:-}" ] || start_postgres; export POSTGRES_URL ;;
esac

run_psql() {
    bash "$here/psql/dump.sh"
    bash "$here/psql/transaction.sh"
    bash "$here/psql/describe.sh"
    bash "$here/psql/databases.sh"
    bash "$here/psql/migration.sh"
}

run_python() { # CLIENT SCRIPT
    local venv="$CLIENTS_CACHE/$1"
    if [ ! -e "$venv/ready" ]; then
        python3 -m venv "$venv"
        "$venv/bin/pip" install --quiet --disable-pip-version-check \
            -r "$here/$1/requirements.txt"
        touch "$venv/ready"
    fi
    "$venv/bin/python" "$here/$1/$2"
}

run_psycopg() {
    run_python psycopg transaction.py
    [ -z "$is_own" ] || run_python psycopg signed.py
}

run_asyncpg() { run_python asyncpg transaction.py; }

run_sqlalchemy() {
    run_python sqlalchemy reflect.py
    run_python sqlalchemy create.py
}

run_pgjdbc() {
    local jar="$CLIENTS_CACHE/postgresql-$PGJDBC_VERSION.jar"
    if [ ! -e "$jar" ]; then
        (cd "$CLIENTS_CACHE" && mvn --quiet --batch-mode dependency:copy \
            "-Dartifact=org.postgresql:postgresql:$PGJDBC_VERSION" \
            "-DoutputDirectory=$CLIENTS_CACHE")
    fi
    java -cp "$jar" "$here/pgjdbc/Transaction.java" "postgresql://$address/$database" "$user"
    java -cp "$jar" "$here/pgjdbc/Metadata.java" "postgresql://$address/$database" "$user"
}

run_node_postgres() {
    local folder="$CLIENTS_CACHE/node-postgres"
    mkdir -p "$folder"
    cp "$here"/node-postgres/* "$folder/"
    [ -d "$folder/node_modules/pg" ] || (cd "$folder" && npm ci --silent --no-audit --no-fund)
    node "$folder/transaction.js"
    [ -z "$is_own" ] || SIGNING="$root/clients/js" node "$folder/signed.js"
    node "$root/clients/js/tally_sign.mjs" vectors "$root/docs/vectors/envelopes.json"
}

run_tokio_postgres() {
    if [ -n "${PROGRAMS:-}" ]; then
        "$PROGRAMS/examples/tokio_client" "$CLIENT_URL"
    else
        run_cargo run --quiet --package node --example tokio_client -- "$CLIENT_URL"
    fi
}

run_failover() {
    TALLY=$tally PYTHON="$CLIENTS_CACHE/psycopg/bin/python" \
        PGJDBC="$CLIENTS_CACHE/postgresql-$PGJDBC_VERSION.jar" \
        "$here/failover.sh" $several_hosts
}

several_hosts=""
for client in psql psycopg pgjdbc; do
    case " $CLIENTS " in *" $client "*) several_hosts="$several_hosts $client" ;; esac
done
failover=""
[ -z "$is_own" ] || [ -z "$several_hosts" ] || failover=failover

passed=0
failed=0
for client in $CLIENTS $failover; do
    # Not "if run_…", inside of which set -e would be off.
    set +e
    (set -e; "run_${client//-/_}")
    status=$?
    set -e
    if [ $status -eq 0 ]; then
        echo "ok      $client"
        passed=$((passed + 1))
    else
        echo "FAILED  $client"
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
