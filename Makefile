# What people type. Each target installs what it needs (Debian, as root) or says what is missing.

.PHONY: help demo run test bench-postgres clean

help:
	@echo "make demo            load, run, kill, recover and prove SmallBank in a minute"
	@echo "make run             start a node to play with, and print the psql line for it"
	@echo "make test            all tests: Rust, and one transaction through each driver"
	@echo "make bench-postgres  the same workloads on tally and on PostgreSQL, side by side"

demo:
	scripts/install-deps pgbench
	cargo build --release --package node
	cargo run --release --quiet --package node -- demo

run:
	scripts/install-deps psql
	cargo build --release --package node
	cargo run --release --quiet --package node -- serve

test:
	scripts/install-deps psql pgbench drivers
	cargo test --workspace
	tests/clients/run.sh

bench-postgres:
	scripts/install-deps pgbench postgres
	cargo build --release --package node
	scripts/compare-postgres

clean:
	cargo clean
