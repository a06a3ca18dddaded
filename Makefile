# What people type. Each target installs what it needs (Debian, as root) or says what is missing.

.PHONY: help demo demo-cluster demo-chainify demo-organisations run run-analytics test test-long test-components test-kafka test-cometbft test-chainify schedules miri \
	other-architecture compatibility console test-console overflow sim torture torture-cluster fuzz soak figures-reliability bench-postgres bench-durability bench-chainify \
	failover-raft failover-cometbft \
	bench-analytics compare-analytics htap dist dist-analytics packages test-packages clean

# DataFusion is most of a build's time: minutes without it, and some twenty with it.
LEAN = --release --package node
ANALYTICS = $(LEAN) --features node/analytics
DIST = --profile dist --package node
# What measures and breaks a node lies beside it: all of it, and the demonstration alone.
TOOLS = $(LEAN) --package tools
DEMO = $(TOOLS) --no-default-features
DEMO_CLUSTER = $(DEMO) --features node/cometbft,node/faults
ANALYTICS_TOOLS = $(ANALYTICS) --package tools --features tools/analytics
TALLY = $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/release/tally

# How long everything takes; TORTURE_KILLS=200 counts kills instead of timing them.
TORTURE_SECONDS ?= 600

FUZZ_SECONDS ?= 600

# TPC-H's scale factor, and CH-benCHmark's warehouses, for comparing answers.
ANALYTICS_SCALE ?= 0.1

# Random edits of proofs that five verifiers must answer alike.
PROOF_EDITS ?= 20000

# Where cargo puts what it has built for tests.
PROGRAMS = $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/debug

# What is told of killed leaders, as JSON: with the order's name.
FAILOVER = $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/failover

# How long a node is under load.
SOAK_SECONDS ?= 7200

help:
	@echo "make demo            load, run, kill, recover and prove SmallBank in a minute"
	@echo "make demo-cluster    four organisations over CometBFT: kill, cut off, a liar, a fifth; all verified"
	@echo "make demo-chainify   two PostgreSQL and a MariaDB that keep one ledger: an edited row is named and repaired"
	@echo "make demo-organisations  two banks and a regulator: forged, stale and revoked transactions, a hot account, who agreed"
	@echo "make run             start a node to play with, and print the psql line for it"
	@echo "make run-analytics   the same with DataFusion for large queries, which takes longer to build"
	@echo "make dist            the binary to hand out, and dist-analytics with DataFusion: small, long to build"
	@echo "make packages        what is handed out: .deb, tarball, container image, wheel, npm"
	@echo "make test-packages   install each of them here, as root, on a machine for tests; use it; remove it"
	@echo "make test            all tests of what make run has"
	@echo "make test-long       the oracle's tests without gaps and with twenty times the seeds: an hour"
	@echo "make test-components tests of analytics, Kafka, CometBFT, chained databases, drivers, five verifiers"
	@echo "make test-kafka      the orderer over Kafka, and nodes by it, with a real broker that is killed and started"
	@echo "make test-chainify   the digests, votes, recovery and figures of chained PostgreSQL and MariaDB servers"
	@echo "make test-cometbft   the orderer over CometBFT with the real program, which is killed and started"
	@echo "make console         the pages that browsers are shown, from their source, into network/web-console/dist"
	@echo "make test-console    those pages in Chromium, before a node that lies and one that goes away"
	@echo "make compatibility   other projects' own suites against a node and PostgreSQL, into docs/compatibility.md"
	@echo "make schedules       what threads share without locks, under schedules that shuttle makes up"
	@echo "make miri            storage under Miri, and its record protocol under a weak memory"
	@echo "make other-architecture  golden ledgers and vectors on aarch64, by QEMU"
	@echo "make overflow        random blocks with overflow checks and without: the same to the last bit"
	@echo "make sim             whole nodes in one thread, a thousand worlds from a thousand seeds"
	@echo "make torture         SIGKILLs, crash images, disk faults, rot: until something is lost or the time is up"
	@echo "make torture-cluster  three nodes, SIGKILLs, SIGSTOPs, lost data, full disks, wrong clocks: nothing lost"
	@echo "make failover-raft   200 leaders killed, failover-cometbft 50 proposers: nothing lost, how long writes were away"
	@echo "make fuzz            statements, large values, wire messages that no driver sends; another session waits for none"
	@echo "make figures-reliability  promised times, measured and held to on a machine of one's own"
	@echo "make soak            two hours of everything at full load: memory must stay flat"
	@echo "make bench-postgres  the same workloads on tally and on PostgreSQL, side by side"
	@echo "make bench-durability  what logs, checkpoints and recovery cost, beside a thesis's figures"
	@echo "make bench-chainify  chained PostgreSQL and MariaDB beside what a thesis has, and beside themselves alone"
	@echo "make bench-analytics  snapshots, scans, writers beside them, TPC-H: beside PostgreSQL"
	@echo "make compare-analytics  44 analytical queries on tally and PostgreSQL: the same answers"
	@echo "make htap            SmallBank and dashboards on one node, alone and together, with plots"

demo:
	scripts/install-deps pgbench
	cargo build $(DEMO)
	$(TALLY) demo

# In a folder of its own: a program that can be told to lie is not left where others start it.
demo-cluster: export COMETBFT ?= $(shell scripts/cometbft path)
demo-cluster: export CARGO_TARGET_DIR := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/faults
demo-cluster:
	scripts/install-deps cometbft
	scripts/cometbft fetch
	cargo build $(DEMO_CLUSTER)
	$(CARGO_TARGET_DIR)/release/tally demo --cluster --customers 10000

# Servers of its own, which go with it.
demo-chainify:
	scripts/install-deps psql postgres mariadb mariadb-client
	cargo build $(LEAN) --features node/chainify
	TALLY=$(TALLY) scripts/demo-chainify

# Three nodes of this machine.
demo-organisations:
	scripts/install-deps psql pgbench
	cargo build $(LEAN)
	TALLY=$(TALLY) scripts/demo-organisations

run:
	scripts/install-deps psql
	cargo build $(LEAN)
	cargo run --quiet $(LEAN) -- serve

run-analytics:
	scripts/install-deps psql
	cargo build $(ANALYTICS)
	cargo run --quiet $(ANALYTICS) -- serve

dist:
	cargo build $(DIST)

dist-analytics:
	cargo build $(DIST) --features node/analytics

# The analytics, that is DataFusion, are left out: they are twice the program.
packages:
	cargo build $(DIST) --package tools --no-default-features --features node/multiversion
	scripts/packages

# Of the programs that tests have.
test-packages:
	scripts/install-deps psql npm containers
	packages/test $(PROGRAMS)

# Orderers that are no part of the default build: their libraries are half a hundred crates.
ORDERERS = order-kafka order-comet

# What brings a driver of another database along.
APART = $(ORDERERS) chainify

test:
	scripts/install-deps psql pgbench python
	scripts/run-tests --workspace $(addprefix --exclude ,analytics $(APART)) \
		--lib --bins --tests --examples
	cargo test --doc --package procedure

# What make test takes samples of.
test-long: export TALLY_ORACLE_SMALL = all
test-long: export TALLY_ORACLE_SEEDS = 20
test-long: export TALLY_SIM_SEEDS = 1000
test-long: export SEEDS = 100
test-long:
	cargo test --package oracle --package recovery --package sim --package sql --lib --tests

# Tests of a node that is the same with analytics and without.
WITHOUT = $(addprefix --skip ,$(addsuffix ::,authentication backups checkpoints clusters disasters failover \
	fuzz joining log_schemes losses pages proofs skips torture undecided votes))

# With a broker of Kafka and CometBFT, which come from their registries, and are built once; with
# PostgreSQL and MariaDB, which tests start.
test-components: export COMETBFT ?= $(shell scripts/cometbft path)
test-components: WITH = --package analytics --package bench --package node --package tools \
	$(addprefix --package ,$(APART)) --features node/analytics,tools/analytics \
	--features node/kafka,node/cometbft,node/chainify,tools/chainify,order-kafka/broker,order-comet/program
test-components:
	scripts/install-deps psql pgbench postgres mariadb drivers kafka cometbft
	scripts/kafka fetch
	scripts/cometbft fetch
	scripts/run-tests $(WITH) --lib --bins --tests -- $(WITHOUT)
	cargo build $(WITH) --example tokio_client
	PROGRAMS=$(PROGRAMS) timeout 1200 tests/clients/run.sh
	cargo build --package ledger --example check_proofs
	PROGRAMS=$(PROGRAMS) timeout 1200 tests/clients/verifiers $(PROOF_EDITS)

# PostgreSQL and MariaDB, started by the tests.
test-chainify:
	scripts/install-deps postgres mariadb
	scripts/run-tests --package chainify --lib --tests
	scripts/run-tests --package node --package tools --features node/chainify,tools/chainify \
		--bins --test chainify

# A broker from its registry, killed and started again.
test-kafka:
	scripts/install-deps drivers kafka
	scripts/kafka fetch
	cargo test --package order-kafka --package node --features order-kafka/broker,node/kafka \
		--test broker --test kafka

# The program from its registry; COMETBFT names one that is there.
test-cometbft: export COMETBFT ?= $(shell scripts/cometbft path)
test-cometbft:
	scripts/install-deps drivers cometbft
	scripts/cometbft fetch
	cargo test --package order-comet --package node --features order-comet/program,node/cometbft \
		--test program --test cometbft

CONSOLE = network/web-console/web

console:
	scripts/install-deps npm
	cd $(CONSOLE) && npm ci && npm run check && npm run build

# What is checked in is what is built of the source. TALLY=PROGRAM is tested, else one that is built
# now; PICTURES=FOLDER keeps the screenshots; MANY=1 makes a million rows and ten thousand blocks.
test-console:
	scripts/install-deps npm chromium psql
	$(if $(TALLY),,cargo build --package node)
	cd $(CONSOLE) && npm ci && npm run check && npm run compare
	cd $(CONSOLE) && TALLY=$(or $(TALLY),$(PROGRAMS)/tally) PICTURES=$(abspath $(PICTURES)) MANY=$(MANY) \
		timeout 1200 npm test

# SQLAlchemy's and Django's, from their registry: some half an hour each, on both servers.
compatibility:
	scripts/install-deps psql python postgres
	cargo build --package node
	PROGRAMS=$(PROGRAMS) scripts/compatibility

# Another cfg is another build of everything below, in a folder of its own.
schedules:
	RUSTFLAGS="--cfg shuttle" scripts/run-tests --target-dir $(or $(CARGO_TARGET_DIR),target)/shuttle \
		--lib --package storage --package anker --package protocols --package multiversion -- schedules

# What it does not see: memory that the kernel maps, which is mapped in other builds alone, and
# prefetches. Schedules are those of scripts/weak-memory.
miri:
	scripts/install-deps miri
	MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test --package storage --lib --test it \
		-- --skip schedules
	scripts/weak-memory

# What is hashed is the same on a processor of another make: ledgers that are checked in, and the
# vectors of the formats.
other-architecture: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER = aarch64-linux-gnu-gcc
other-architecture: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER = \
	qemu-aarch64 -L /usr/aarch64-linux-gnu
other-architecture: OTHER = cargo test --target aarch64-unknown-linux-gnu
other-architecture:
	scripts/install-deps aarch64 python
	$(OTHER) --package recovery --test it golden_ledgers
	$(OTHER) --package ledger --lib vectors
	$(OTHER) --package types
	$(OTHER) --package procedure --test chance
	$(OTHER) --package order --test it -- vectors reader

overflow:
	scripts/compare-overflow-checks

sim:
	cargo build $(TOOLS)
	$(TALLY) sim

torture:
	cargo build $(TOOLS)
	$(TALLY) torture --seconds $(TORTURE_SECONDS) \
		$(if $(TORTURE_KILLS),--kills $(TORTURE_KILLS))

torture-cluster:
	cargo build $(TOOLS)
	$(TALLY) torture --cluster 3 --seconds $(TORTURE_SECONDS) \
		$(if $(TORTURE_KILLS),--kills $(TORTURE_KILLS))

failover-raft:
	cargo build $(TOOLS)
	$(TALLY) failover --order raft --kills 200 --report $(FAILOVER)-raft.json

failover-cometbft: export COMETBFT ?= $(shell scripts/cometbft path)
failover-cometbft:
	scripts/install-deps cometbft
	scripts/cometbft fetch
	cargo build $(TOOLS) --features node/cometbft
	$(TALLY) failover --order cometbft --kills 50 --report $(FAILOVER)-cometbft.json

fuzz:
	cargo build $(TOOLS)
	$(TALLY) fuzz --seconds $(FUZZ_SECONDS) --late-ms-max 50

# What tests allow a factor for, since their build is slow and their machine is loaded.
figures-reliability: export PROMISES = strict
figures-reliability:
	scripts/install-deps psql python
	cargo test $(TOOLS) --test it -- --test-threads 1 --nocapture interrupts:: fuzz:: \
		undecided::writes failover::a_session clusters::a_cluster votes::a_node joining::a_member_is \
		memory::clients authentication::slow isolation::a_client
	cargo test --release --package sql --test it -- --test-threads 1 --nocapture bounds:: hostile::

soak:
	cargo build $(TOOLS)
	$(TALLY) soak --seconds $(SOAK_SECONDS)

bench-postgres:
	scripts/install-deps pgbench postgres
	cargo build $(TOOLS)
	scripts/compare-postgres

bench-durability:
	cargo build $(TOOLS)
	$(TALLY) bench figure durability pacman

# Servers of its own, which go with it: half an hour.
bench-chainify:
	scripts/install-deps postgres mariadb
	cargo build $(TOOLS) --features node/chainify
	$(TALLY) bench figure chainify

bench-analytics:
	scripts/install-deps postgres
	cargo build $(ANALYTICS_TOOLS)
	scripts/with-postgres $(TALLY) bench figure analytics

compare-analytics:
	scripts/install-deps postgres
	cargo build $(ANALYTICS_TOOLS)
	scripts/with-postgres $(TALLY) bench answers --scale $(ANALYTICS_SCALE)

htap:
	scripts/install-deps pgbench
	cargo build $(ANALYTICS_TOOLS)
	$(TALLY) bench htap --html target/htap.html

clean:
	cargo clean
