//! Configuration: one flat TOML file, and who may overrule it.
//!
//! A value comes from the first of these that has it: a flag, the environment (`TALLY_LISTEN` for
//! `listen`), the file, the default. The file is the one that `--config` names, else `tally.toml`
//! in the data folder, else there is none. A key that no setting has is an error that names the
//! nearest one: a misspelt limit must not be a silently absent limit.
//!
//! [`table`] declares the settings; everything else, `docs/configuration.md` included, is derived
//! from it.

pub mod page;
pub mod table;
pub mod value;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

pub use table::{SETTINGS, Settings};
pub use value::{
    BadValue, ClientCertificate, Durability, FileModes, KafkaSasl, LogFormat, LogScheme,
    RecoveryReplay, TlsUse,
};

pub const FILE_NAME: &str = "tally.toml";

/// Where an effective value came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    Default,
    File(PathBuf),
    Environment(String),
    Flag,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Default => f.write_str("default"),
            Source::File(path) => write!(f, "{}", path.display()),
            Source::Environment(name) => f.write_str(name),
            Source::Flag => f.write_str("flag"),
        }
    }
}

/// Why the settings cannot be used. One line for each fault, all of them at once.
#[derive(Debug)]
pub struct ConfigError(pub Vec<String>);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for ConfigError {}

/// What the caller of [`resolve`] read from outside.
#[derive(Default)]
pub struct Inputs {
    /// `--config FILE`.
    pub file: Option<PathBuf>,
    /// `key, text` of every flag that was given.
    pub flags: Vec<(String, String)>,
    /// The environment.
    pub environment: BTreeMap<String, String>,
}

/// The effective settings and where each came from.
#[derive(Debug)]
pub struct Resolved {
    pub settings: Settings,
    pub sources: BTreeMap<&'static str, Source>,
    /// The file that was read, if one was.
    pub file: Option<PathBuf>,
}

/// Applies default, file, environment and flags, in this order, and checks the result.
pub fn resolve(inputs: &Inputs) -> Result<Resolved, ConfigError> {
    let settings = Settings::defaults().map_err(|fault| ConfigError(vec![fault.0]))?;
    let sources = SETTINGS.iter().map(|s| (s.key, Source::Default)).collect();
    let mut resolved = Resolved { settings, sources, file: None };
    let mut faults = Vec::new();
    if let Some(path) = find_file(inputs) {
        read_file(&path, &mut resolved, &mut faults);
        resolved.file = Some(path);
    }
    apply_environment(inputs, &mut resolved, &mut faults);
    for (key, text) in &inputs.flags {
        resolved.assign(key, text, Source::Flag, &mut faults);
    }
    if faults.is_empty() {
        check(&resolved.settings, &mut faults);
    }
    if faults.is_empty() { Ok(resolved) } else { Err(ConfigError(faults)) }
}

impl Resolved {
    fn assign(&mut self, key: &str, text: &str, source: Source, faults: &mut Vec<String>) {
        let Some(setting) = SETTINGS.iter().find(|s| s.key == key) else {
            faults.push(format!("{source}: {}", unknown_key(key)));
            return;
        };
        match self.settings.assign(key, text) {
            Ok(()) => {
                self.sources.insert(setting.key, source);
            }
            Err(fault) => faults.push(format!("{source}: `{key}`: {fault}")),
        }
    }
}

/// The file lives in the data folder unless it is named, so the folder must be known first; a
/// `data` key inside that file cannot move it.
fn find_file(inputs: &Inputs) -> Option<PathBuf> {
    let variable = |name: &str| inputs.environment.get(name).map(PathBuf::from);
    if let Some(path) = inputs.file.clone().or_else(|| variable("TALLY_CONFIG")) {
        return Some(path);
    }
    let flag = inputs.flags.iter().rev().find(|(key, _)| key == "data");
    let data = flag.map(|(_, text)| PathBuf::from(text)).or_else(|| variable("TALLY_DATA"));
    let default = SETTINGS.iter().find(|s| s.key == "data")?.default;
    let path = data.unwrap_or_else(|| default.into()).join(FILE_NAME);
    path.exists().then_some(path)
}

fn read_file(path: &Path, resolved: &mut Resolved, faults: &mut Vec<String>) {
    let name = path.display();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => return faults.push(format!("{name}: {error}")),
    };
    let table: toml::Table = match text.parse() {
        Ok(table) => table,
        Err(error) => return faults.push(format!("{name}: {error}")),
    };
    for (key, value) in &table {
        let text = match value {
            toml::Value::String(text) => text.clone(),
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Boolean(flag) => flag.to_string(),
            _ if !SETTINGS.iter().any(|s| s.key == key) => String::new(),
            _ => {
                faults.push(format!("{name}: `{key}`: a single value is expected"));
                continue;
            }
        };
        resolved.assign(key, &text, Source::File(path.to_owned()), faults);
    }
}

/// A misspelt variable is as dangerous as a misspelt key, so `TALLY_*` is ours entirely.
fn apply_environment(inputs: &Inputs, resolved: &mut Resolved, faults: &mut Vec<String>) {
    for (name, text) in &inputs.environment {
        let Some(key) = name.strip_prefix("TALLY_") else {
            continue;
        };
        if key != "CONFIG" {
            let source = Source::Environment(name.clone());
            resolved.assign(&key.to_lowercase(), text, source, faults);
        }
    }
}

/// Faults that no single value shows.
fn check(settings: &Settings, faults: &mut Vec<String>) {
    let mut require = |holds: bool, fault: &str| {
        if !holds {
            faults.push(fault.to_owned());
        }
    };
    require(
        settings.tls_certificate.is_some() == settings.tls_key.is_some(),
        "`tls_certificate` and `tls_key` are set together or not at all",
    );
    let certificates = settings.tls_client_certificate;
    require(
        settings.tls_certificate.is_some() || settings.tls == TlsUse::Offer,
        "`tls = require` needs `tls_certificate` and `tls_key`",
    );
    require(
        settings.tls_certificate.is_some() || settings.tls_client_ca.is_none(),
        "`tls_client_ca` needs `tls_certificate` and `tls_key`",
    );
    require(
        settings.tls_client_ca.is_some() || certificates == ClientCertificate::Optional,
        "`tls_client_certificate` needs `tls_client_ca`, which says whose certificates count",
    );
    require(
        settings.password_file.is_some() || certificates != ClientCertificate::WithPassword,
        "`tls_client_certificate = with_password` needs `password_file`",
    );
    require(
        settings.listen.ip().is_loopback()
            || settings.password_file.is_some()
            || settings.tls_client_ca.is_some(),
        "`listen` is not a loopback address: set `password_file` or `tls_client_ca`, since only \
         loopback is trusted",
    );
    require(!settings.owner.is_empty(), "`owner` is a user's name");
    require(
        settings.http_listen != Some(settings.listen) || settings.listen.port() == 0,
        "`listen` and `http_listen` are the same address",
    );
    require(
        settings.log_scheme != LogScheme::None
            || settings.checkpoint_interval_blocks > 0
            || settings.checkpoint_interval_bytes > 0,
        "`log_scheme = none` writes nothing without checkpoints: set a checkpoint interval",
    );
    require(settings.checkpoint_keep >= 1, "`checkpoint_keep` is at least 1");
    require(
        (1..=100).contains(&settings.checkpoint_cpu_percent_max),
        "`checkpoint_cpu_percent_max` is between 1 and 100",
    );
    require(settings.max_connections >= 1, "`max_connections` is at least 1");
    require(
        settings.reserved_connections < settings.max_connections.max(1),
        "`reserved_connections` is less than `max_connections`",
    );
    check_blocks(settings, &mut require);
    check_kafka(settings, &mut require);
    require(settings.workers <= 1024, "`workers` is at most 1024");
    if let Err(error) = protocols::by_name(&protocols::recorded_name(&settings.protocol)) {
        let hint = error.fields().hint.clone().unwrap_or_default();
        require(false, &format!("`protocol`: {}. {hint}", error.message()));
    }
    check_files(settings, &mut require);
}

fn check_blocks(settings: &Settings, require: &mut dyn FnMut(bool, &str)) {
    require(settings.block_transactions_max >= 1, "`block_transactions_max` is at least 1");
    // What waits longer is sent to the leader again.
    require(settings.block_fill_ms_max <= 4000, "`block_fill_ms_max` is at most 4000");
    require(settings.block_bytes_max >= 65_536, "`block_bytes_max` is at least 65536");
    require(
        settings.segment_bytes_max >= settings.block_bytes_max,
        "`segment_bytes_max` is at least `block_bytes_max`: a block lies in one segment",
    );
}

fn check_files(settings: &Settings, require: &mut dyn FnMut(bool, &str)) {
    for (key, path) in [
        ("tls_certificate", &settings.tls_certificate),
        ("tls_key", &settings.tls_key),
        ("tls_client_ca", &settings.tls_client_ca),
        ("password_file", &settings.password_file),
        ("http_token_file", &settings.http_token_file),
        ("kafka_tls_ca", &settings.kafka_tls_ca),
        ("kafka_tls_certificate", &settings.kafka_tls_certificate),
        ("kafka_tls_key", &settings.kafka_tls_key),
        ("kafka_password_file", &settings.kafka_password_file),
    ] {
        if let Some(path) = path {
            let fault = format!("`{key}`: {} does not exist or is not a file", path.display());
            require(path.is_file(), &fault);
        }
    }
}

fn check_kafka(settings: &Settings, require: &mut dyn FnMut(bool, &str)) {
    require(
        settings.kafka_brokers.0.is_empty() == settings.kafka_topic.is_empty(),
        "`kafka_brokers` and `kafka_topic` are set together or not at all",
    );
    require(
        settings.kafka_tls_certificate.is_some() == settings.kafka_tls_key.is_some(),
        "`kafka_tls_certificate` and `kafka_tls_key` are set together or not at all",
    );
    require(
        settings.kafka_tls_ca.is_some() || settings.kafka_tls_certificate.is_none(),
        "`kafka_tls_certificate` needs `kafka_tls_ca`, without which there is no TLS",
    );
    let names = !settings.kafka_user.is_empty() && settings.kafka_password_file.is_some();
    require(
        settings.kafka_sasl == KafkaSasl::None || names,
        "`kafka_sasl` needs `kafka_user` and `kafka_password_file`",
    );
    require(
        settings.kafka_sasl != KafkaSasl::Plain || settings.kafka_tls_ca.is_some(),
        "`kafka_sasl = plain` sends the password as it is: set `kafka_tls_ca`, which has it go \
         over TLS",
    );
}

fn unknown_key(key: &str) -> String {
    let nearest =
        SETTINGS.iter().map(|setting| (edit_distance(key, setting.key), setting.key)).min();
    match nearest {
        Some((distance, name)) if distance <= key.len().div_ceil(2) => {
            format!("unknown setting `{key}`; did you mean `{name}`?")
        }
        _ => format!("unknown setting `{key}`; `tally config show` lists them"),
    }
}

/// Levenshtein's distance, one row at a time.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &to) in b.iter().enumerate() {
            let substitute = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests;
