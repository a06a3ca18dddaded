//! The settings, each declared once.
//!
//! One declaration gives the field that the node reads, the key of `tally.toml`, the name of the
//! environment variable, the default, and the paragraph in `docs/configuration.md`. Units are part
//! of the names. Nothing here says how a ledger's blocks are *executed* after genesis: that is
//! ledger state, because an edited file would otherwise make old blocks unverifiable.

use std::net::SocketAddr;
use std::path::PathBuf;

use engine::retention::Policy;

use super::value::{
    BadValue, ClientCertificate, Durability, FileModes, Folders, KafkaSasl, LogFormat, LogScheme,
    Names, RecoveryReplay, SettingValue, TlsUse, TlsVersion,
};

/// When a setting is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// At every start.
    Start,
    /// Only when the data folder is created; afterwards it is ledger state.
    Genesis,
}

/// What is known of one setting besides its value.
#[derive(Debug)]
pub struct Setting {
    pub key: &'static str,
    pub section: &'static str,
    pub kind: &'static str,
    pub default: &'static str,
    pub scope: Scope,
    pub documentation: &'static str,
}

impl Setting {
    /// `TALLY_BLOCK_BYTES_MAX` for `block_bytes_max`.
    pub fn environment_name(&self) -> String {
        format!("TALLY_{}", self.key.to_uppercase())
    }
}

macro_rules! settings {
    ($(
        $section:literal, $scope:ident {
            $( $(#[doc = $line:literal])+ $key:ident : $kind:ty = $default:literal; )+
        }
    )+) => {
        /// The effective settings.
        #[derive(Clone, Debug)]
        pub struct Settings { $($( $(#[doc = $line])+ pub $key: $kind, )+)+ }

        pub static SETTINGS: &[Setting] = &[$($( Setting {
            key: stringify!($key),
            section: $section,
            kind: <$kind as SettingValue>::KIND,
            default: $default,
            scope: Scope::$scope,
            documentation: concat!($($line, "\n"),+),
        }, )+)+];

        impl Settings {
            /// Every setting at its default.
            pub fn defaults() -> Result<Settings, BadValue> {
                Ok(Settings { $($( $key: SettingValue::parse($default)?, )+)+ })
            }

            /// Sets one by the text that a flag, a variable or the file gave.
            /// The key must be in [`SETTINGS`].
            pub(super) fn assign(&mut self, key: &str, text: &str) -> Result<(), BadValue> {
                match key {
                    $($( stringify!($key) => self.$key = SettingValue::parse(text)?, )+)+
                    _ => return Err(BadValue(format!("unknown setting `{key}`"))),
                }
                Ok(())
            }

            /// The value as the file would hold it; the key must be in [`SETTINGS`].
            pub fn get(&self, key: &str) -> Option<toml::Value> {
                match key {
                    $($( stringify!($key) => Some(self.$key.to_toml()), )+)+
                    _ => None,
                }
            }
        }
    };
}

settings! {
    "Data", Start {
        /// Folder that holds the ledger. Created, for its owner alone, when it does not exist.
        data: PathBuf = "tally-data";
        /// `on`: a block's order is on disk (fdatasync) before any result in it is released.
        /// `off`: results are released earlier, and a crash of the machine may lose the newest
        /// blocks; the ledger that is left still verifies.
        durability: Durability = "on";
        /// What is on disk before a result is released. `command`: its block's order. What came of
        /// it is written after it and never waited for, since a start executes the blocks after
        /// the newest checkpoint. `logical`, `physical`: its block's order, and with every row
        /// logger the rows that the block left (`physical`: and where they lie). A start reads
        /// the rows of blocks instead of executing them; each block's rows must come to the effects
        /// root in its header, else the blocks are executed after all, and the log says why. Row
        /// logs go when a checkpoint holds their blocks; the ledger is whole without them. `none`:
        /// nothing. Blocks are held in memory, and written when a checkpoint is taken, at a clean
        /// stop or a halt, and when they come to 1 GiB; then the ledger holds all that it holds
        /// under `command`. A crash of the node loses every block after the last checkpoint,
        /// *acknowledged ones too*; what is left verifies. `SHOW log_scheme` tells clients.
        log_scheme: LogScheme = "command";
        /// Folders of the row logs, one logger for each, so at best each on a device of its own;
        /// a comma stands between them. Empty means one, the folder `rows` in `data`.
        log_folders: Folders = "";
        /// How a start replays the blocks after the checkpoint that no row log has.
        /// `protocol`: executed under their protocol; outcomes and effects are compared with the
        /// recorded ones, as `tally verify` does: it checks most.
        /// `pacman`: in pieces that run beside each other, where the ledger holds the serial order
        /// (under protocols that keep the order of the block: serial, calvin, bohm, block_stm,
        /// conflict_graph, the online ones, the multi-version studies but `si`), else as
        /// `protocol`.
        /// `serial`: one transaction after another, under the same condition. Both compare each
        /// block's effects, but do not tell outcomes again.
        recovery_replay: RecoveryReplay = "protocol";
        /// Size in bytes at which a segment file of the ledger is closed and the next one begun.
        segment_bytes_max: u64 = "67108864";
    }
    "Connections", Start {
        /// Address of the PostgreSQL port.
        listen: SocketAddr = "127.0.0.1:5460";
        /// Folder, relative to `data`, of a Unix-domain socket: clients of the same machine that
        /// connect to it (`psql -h FOLDER`) spend half of what TCP costs. Empty means none.
        socket_folder: Option<PathBuf> = ".";
        /// Databases that CREATE DATABASE makes, at most; one more is refused with SQLSTATE 53400.
        /// Each is a ledger with threads of its own. 0 means none.
        databases_max: u32 = "16";
        /// Sessions at a time; one more is refused with SQLSTATE 53300.
        max_connections: u32 = "500";
        /// How many of them are kept free for superusers, who get in when all others are taken.
        reserved_connections: u32 = "3";
        /// The superuser that a new ledger begins with. A ledger that exists keeps its own: who may
        /// do what there, its roles say. `tally cluster add` and `remove` ask in its name.
        owner: String = "tally";
        /// File with one `user:verifier` a line, as `tally config password USER` prints it.
        /// Without it, clients of the same machine are trusted, under any name, and no others are
        /// admitted. SIGHUP has this file, the certificates, their keys and `http_token_file` read
        /// again, for connections to come; of a broken file the log tells, and the old one stays.
        password_file: Option<PathBuf> = "";
        /// Wrong passwords that an address (of IPv6, a network of 64 bits) may give in a minute;
        /// beyond that it is turned away for some seconds, with the right password too. 0 means
        /// any.
        failed_logins_per_minute_max: u32 = "10";
        /// `offer`: TLS for clients that ask for it. `require`: one that comes by TCP without it is
        /// refused, with SQLSTATE 28000. By the Unix-domain socket there is none.
        tls: TlsUse = "offer";
        /// Certificate chain (PEM). TLS is offered when this and `tls_key` are set.
        tls_certificate: Option<PathBuf> = "";
        /// Private key (PEM) of `tls_certificate`.
        tls_key: Option<PathBuf> = "";
        /// Oldest version of TLS that is spoken. There is none below 1.2.
        tls_version_min: TlsVersion = "1.2";
        /// Certificates (PEM) of those that vouch for clients: a client whose certificate one of
        /// them has signed is the user that the certificate's common name says. That user need not
        /// be in `password_file`.
        tls_client_ca: Option<PathBuf> = "";
        /// `optional`: a certificate stands for the password; without one, or with another user's,
        /// the password counts. `required`: who comes by TCP has one, in the user's name.
        /// `with_password`: and gives the password, too.
        tls_client_certificate: ClientCertificate = "optional";
        /// `private`: a start is refused where other users of the machine can read `data`,
        /// `tls_key`, `password_file` or `http_token_file`, or write them. `any`: for containers,
        /// whose volumes have modes of their own.
        file_modes: FileModes = "private";
        /// Threads that serve connections; 0 means one for every two cores.
        io_threads: u32 = "0";
        /// How long, in milliseconds, a clean stop waits for statements that are being executed.
        /// Sessions that wait for their client are ended at once, open transactions rolled back.
        stop_wait_ms_max: u64 = "5000";
    }
    "Blocks", Start {
        /// Transactions in a block, at most.
        block_transactions_max: u32 = "10000";
        /// Bytes of transactions in a block, at most. A larger transaction is refused.
        block_bytes_max: u64 = "16777216";
        /// How long, in microseconds, a block may wait for the clients of the last one. It never
        /// waits longer than an eighth of a sync, so not at all on a fast disk or an idle node.
        block_wait_us_max: u64 = "1000";
        /// How long, in milliseconds, a member that leads lets a block wait to be full, as
        /// orderers of other systems do: of `block_transactions_max` transactions. 0: it takes
        /// those that there are. By Raft only; a change of schema or parameters waits for nothing.
        block_fill_ms_max: u64 = "0";
        /// Writes are refused while the ledger's time is more seconds ahead of this machine's
        /// clock, and when that clock was set so far ahead since the start: a block bears its time
        /// for ever. A member of a cluster whose clock is further from those of most members does
        /// not lead. 0 allows anything.
        clock_ahead_s_max: u64 = "300";
        /// Threads that execute a block; 0 means one for each core.
        workers: u32 = "0";
    }
    "Analytics", Start {
        /// Threads of analytical queries, which give way to those that execute blocks; 0 means one
        /// for each core. This section is for builds with the feature `analytics`.
        analytics_threads: u32 = "0";
        /// Memory, in bytes, of what all analytical queries hold at a time: hash tables, sorts,
        /// windows. A query that needs more spills, or is refused with SQLSTATE 53200.
        analytics_memory_bytes_max: u64 = "1073741824";
        /// Memory, in bytes, of the columnar images that such queries read. It is a cache: beyond
        /// it, images go and are made again when they are asked for; so do the columns of tables
        /// of layout `column`, which are kept current from then on.
        image_bytes_max: u64 = "2147483648";
        /// Folder that sorts, joins and aggregations spill to; empty means that they do not.
        analytics_spill_folder: Option<PathBuf> = "";
    }
    "Checkpoints", Start {
        /// A checkpoint is due after so many blocks; 0 means that blocks do not count.
        checkpoint_interval_blocks: u64 = "100000";
        /// A checkpoint is due after so many bytes of blocks; 0 means that bytes do not count. With
        /// both intervals at 0 there are only those that `tally checkpoint` asks for.
        checkpoint_interval_bytes: u64 = "134217728";
        /// Checkpoints that are kept, at least 1. A damaged one costs the replay from the one
        /// before.
        checkpoint_keep: u32 = "2";
        /// Share of one core, in percent, that writing a checkpoint may take.
        checkpoint_cpu_percent_max: u32 = "50";
        /// Memory, in bytes, of overwritten row versions that a checkpoint keeps
        /// while it is written. From half of it on the checkpoint is written as fast as can be;
        /// beyond it is given up, with an error in the log, and the ones before stay. 0 means any.
        checkpoint_undo_bytes_max: u64 = "1073741824";
    }
    "Organisations", Start {
        /// The function by which this node decides, as a node of its organisation, what it
        /// approves: a routine of the ledger that takes (principal text, kind text, what text,
        /// arguments text[]), returns boolean, and cannot be changed without the organisation.
        /// Empty: `tally_approve()` is refused.
        approval_check: String = "";
    }
    "Memory", Start {
        /// Bytes that tables, their indexes and older versions of their rows may hold. Beyond it
        /// what might write is refused with 53200, but for schema changes and single DELETEs; what
        /// is there can be read. 0 means three quarters of what the machine, or the control group
        /// of the process, has.
        memory_bytes_max: u64 = "0";
        /// Bytes that all sessions may hold together: results that wait for their clients, rows
        /// that queries gather, what open transactions have written, data of COPY, statements and
        /// their parameters. A statement that needs more is refused with 53200. What analytical
        /// queries gather is bounded by `analytics_memory_bytes_max` instead; their results count
        /// here. 0 means an eighth of what tables may hold, and at least 64 MiB.
        session_memory_bytes_max: u64 = "0";
        /// Statements that a session may have prepared: so many by the protocol, and as many by
        /// PREPARE. One more is refused, with 54000 and 53200.
        session_statements_max: u32 = "10000";
        /// Portals with a name that a session may have open; one more is refused with 54000.
        session_portals_max: u32 = "10000";
        /// Bytes that a session's prepared statements may take, by estimate, and as many its
        /// portals; beyond it another is refused with 53200.
        session_statement_bytes_max: u64 = "67108864";
        /// Statements that a session keeps bound for the next time that their text comes; with one
        /// more it begins anew.
        session_cached_statements_max: u32 = "512";
    }
    "Time travel", Start {
        /// Blocks whose state stays readable by `AS OF BLOCK` and `AS OF TIMESTAMP`: rules with
        /// commas between, such as `every 1000 blocks keep 24, every 1 hour keep 48`. A rule of
        /// time keeps the last block before each full hour (second, minute, day). Each costs the
        /// rows that changed between it and the next, once. Empty: none but the newest few, and
        /// those that `SELECT tally_pin('name')` keeps. A start keeps anew from where it begins.
        snapshot_retention: Policy = "every 1000 blocks keep 24";
        /// Memory, in bytes, of overwritten row versions, of index entries that lead to these
        /// alone, and of dropped tables that can still be read. Beyond it retained blocks go, the
        /// oldest first, then the snapshots of named pins and of sessions that have seen 64 blocks
        /// come, which are told `snapshot too old`. 0 means any.
        undo_bytes_max: u64 = "536870912";
    }
    "Pruning", Start {
        /// Blocks that are kept, at least, when old ones are pruned after each new checkpoint; 0
        /// means that all are, unless `tally prune` says otherwise. Blocks go by whole segments,
        /// and none that the oldest checkpoint needs. Headers stay, so receipts can still be
        /// checked.
        prune_keep_blocks: u64 = "0";
        /// Folder of an archive, to which blocks are copied before they are pruned; empty means
        /// that they are thrown away.
        prune_archive: Option<PathBuf> = "";
    }
    "Observation", Start {
        /// Address of `/livez`, `/readyz` and `/metrics`; empty turns them off.
        http_listen: Option<SocketAddr> = "127.0.0.1:5461";
        /// Names by which that port is asked, a comma between two, besides addresses and
        /// `localhost`. Requests to other names are refused: a page in a browser may have made
        /// them.
        http_hosts: Names = "";
        /// File with the token that requests to that port have to show which change something:
        /// `Authorization: Bearer TOKEN`. Empty means `http-token` in `data`, which the node makes.
        http_token_file: Option<PathBuf> = "";
        /// What is logged to standard error: a level, or directives such as `info,engine=debug`.
        /// A warning that repeats itself word for word is logged once a minute.
        log_level: String = "info";
        /// `text` for people, `json` for collectors.
        log_format: LogFormat = "text";
    }
    "Order by Kafka", Start {
        /// Brokers, as `host:port` with commas between; one of them has to answer to find the
        /// others. This section is for members of a cluster that `tally cluster init --order kafka`
        /// has made, and for builds with the feature `kafka`.
        kafka_brokers: Names = "";
        /// The topic that is the order: one partition, not compacted, the same on all members, and
        /// of no other ledger. What its brokers delete of it no member can read that was away so
        /// long: it then takes the ledger from another one.
        kafka_topic: String = "";
        /// Certificates (PEM) of those that vouch for the brokers; for the public ones,
        /// `/etc/ssl/certs/ca-certificates.crt`. Set, all that goes to brokers goes over TLS.
        kafka_tls_ca: Option<PathBuf> = "";
        /// Certificate chain (PEM) that this node shows to brokers which ask for one.
        kafka_tls_certificate: Option<PathBuf> = "";
        /// Private key (PEM) of `kafka_tls_certificate`.
        kafka_tls_key: Option<PathBuf> = "";
        /// How brokers are told who this node is, by SASL: `none`, or with `kafka_user` and
        /// `kafka_password_file` by `plain` (over TLS alone), `scram-sha-256`, `scram-sha-512`.
        kafka_sasl: KafkaSasl = "none";
        /// The name that this node has at the brokers.
        kafka_user: String = "";
        /// File with its password, without anything else.
        kafka_password_file: Option<PathBuf> = "";
    }
    "Order by CometBFT", Start {
        /// The program: a path, or a name that is looked for in `PATH`. A node of a cluster that
        /// `tally cluster init --order cometbft` has made runs it as its child. This section is for
        /// builds with the feature `cometbft`.
        cometbft: PathBuf = "cometbft";
    }
    "Genesis", Genesis {
        /// Protocol that executes the blocks of a new ledger. Later changes are ledger
        /// transactions. `ordered` and `online` stand for the best of each family.
        protocol: String = "harmony";
        /// Units of work that a transaction may take: a step, a row that is read, an operator,
        /// about 40 for a row that is written. It holds up its block, and every writer, for some
        /// 1.6 seconds at most, by default (25,000,000 units are about one), or a million short
        /// rows; one that takes more is rejected with 54001 and says how to split it.
        /// Later changes are ledger transactions: `SET ledger.transaction_units_max`.
        transaction_units_max: u64 = "40000000";
        /// Bytes of rows that a transaction may gather, answer and write; one that holds more is
        /// rejected with 54000. Later changes: `SET ledger.transaction_bytes_max`.
        transaction_bytes_max: u64 = "1073741824";
    }
}
