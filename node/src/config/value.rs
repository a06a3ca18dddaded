//! How a setting's text becomes a value, and back.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use engine::retention::Policy;

/// Why a text is no value of a setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadValue(pub String);

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadValue {}

impl From<String> for BadValue {
    fn from(why: String) -> BadValue {
        BadValue(why)
    }
}

/// A type that a setting can have. Flags, variables and the file all pass through `parse`, so that
/// a value means the same wherever it stands.
pub trait SettingValue: Sized {
    const KIND: &'static str;
    fn parse(text: &str) -> Result<Self, BadValue>;
    fn to_toml(&self) -> toml::Value;
}

fn parse_integer<T: std::str::FromStr>(text: &str) -> Result<T, BadValue> {
    let digits: String = text.chars().filter(|&c| c != '_').collect();
    digits.parse().map_err(|_| BadValue(format!("`{text}` is not a whole number in range")))
}

impl SettingValue for u32 {
    const KIND: &'static str = "integer";
    fn parse(text: &str) -> Result<Self, BadValue> {
        parse_integer(text)
    }
    fn to_toml(&self) -> toml::Value {
        toml::Value::Integer(i64::from(*self))
    }
}

impl SettingValue for u64 {
    const KIND: &'static str = "integer";
    /// TOML's integers are signed; the ceiling is theirs.
    fn parse(text: &str) -> Result<Self, BadValue> {
        let number = parse_integer::<i64>(text)?;
        number.try_into().map_err(|_| BadValue(format!("`{text}` is negative")))
    }
    fn to_toml(&self) -> toml::Value {
        toml::Value::Integer(i64::try_from(*self).unwrap_or(i64::MAX))
    }
}

impl SettingValue for String {
    const KIND: &'static str = "text";
    fn parse(text: &str) -> Result<Self, BadValue> {
        Ok(text.to_owned())
    }
    fn to_toml(&self) -> toml::Value {
        toml::Value::String(self.clone())
    }
}

impl SettingValue for PathBuf {
    const KIND: &'static str = "path";
    fn parse(text: &str) -> Result<Self, BadValue> {
        if text.is_empty() {
            return Err(BadValue("a path is needed".to_owned()));
        }
        Ok(PathBuf::from(text))
    }
    fn to_toml(&self) -> toml::Value {
        toml::Value::String(self.display().to_string())
    }
}

impl SettingValue for SocketAddr {
    const KIND: &'static str = "address";
    fn parse(text: &str) -> Result<Self, BadValue> {
        let literal = text.replacen("localhost:", "127.0.0.1:", 1);
        let bad = || BadValue(format!("`{text}` is not an address such as 127.0.0.1:5460"));
        literal.parse().map_err(|_| bad())
    }
    fn to_toml(&self) -> toml::Value {
        toml::Value::String(self.to_string())
    }
}

/// Empty text means "not set".
impl<T: SettingValue> SettingValue for Option<T> {
    const KIND: &'static str = T::KIND;
    fn parse(text: &str) -> Result<Self, BadValue> {
        if text.is_empty() {
            return Ok(None);
        }
        T::parse(text).map(Some)
    }
    fn to_toml(&self) -> toml::Value {
        match self {
            Some(value) => value.to_toml(),
            None => toml::Value::String(String::new()),
        }
    }
}

impl SettingValue for Policy {
    const KIND: &'static str = "rules";
    fn parse(text: &str) -> Result<Self, BadValue> {
        text.parse().map_err(BadValue)
    }
    fn to_toml(&self) -> toml::Value {
        toml::Value::String(self.to_string())
    }
}

macro_rules! choice {
    ($(#[$meta:meta])* $name:ident { $($variant:ident = $text:literal),+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name { $($variant),+ }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($name::$variant => $text),+ })
            }
        }

        impl SettingValue for $name {
            const KIND: &'static str = concat!("one of"$(, " ", $text)+);
            fn parse(text: &str) -> Result<Self, BadValue> {
                match text {
                    $($text => Ok($name::$variant),)+
                    _ => Err(BadValue(format!("`{text}` is not {}", Self::KIND))),
                }
            }
            fn to_toml(&self) -> toml::Value {
                toml::Value::String(self.to_string())
            }
        }
    };
}

choice!(
    /// Whether results wait for the disk.
    Durability { On = "on", Off = "off" }
);
choice!(
    /// The form of a log line.
    LogFormat { Text = "text", Json = "json" }
);
choice!(
    /// What is logged before a result is released.
    LogScheme { Command = "command", Logical = "logical", Physical = "physical", None = "none" }
);
choice!(
    /// How blocks are replayed at start.
    RecoveryReplay { Protocol = "protocol", Pacman = "pacman", Serial = "serial" }
);

choice!(
    /// What becomes of a TCP connection without TLS.
    TlsUse { Offer = "offer", Require = "require" }
);
choice!(
    /// The oldest version of TLS.
    TlsVersion { V1_2 = "1.2", V1_3 = "1.3" }
);
choice!(
    /// What a client's certificate is good for.
    ClientCertificate { Optional = "optional", Required = "required", WithPassword = "with_password" }
);
choice!(
    /// How a node says to Kafka's brokers who it is.
    KafkaSasl {
        None = "none",
        Plain = "plain",
        ScramSha256 = "scram-sha-256",
        ScramSha512 = "scram-sha-512"
    }
);
choice!(
    /// Who else may read keys, passwords and the ledger.
    FileModes { Private = "private", Any = "any" }
);

impl From<TlsVersion> for pgfront::TlsVersion {
    fn from(version: TlsVersion) -> Self {
        match version {
            TlsVersion::V1_2 => pgfront::TlsVersion::V1_2,
            TlsVersion::V1_3 => pgfront::TlsVersion::V1_3,
        }
    }
}

impl From<ClientCertificate> for pgfront::ClientCertificates {
    fn from(certificate: ClientCertificate) -> Self {
        match certificate {
            ClientCertificate::Optional => pgfront::ClientCertificates::Optional,
            ClientCertificate::Required => pgfront::ClientCertificates::Required,
            ClientCertificate::WithPassword => pgfront::ClientCertificates::WithPassword,
        }
    }
}

/// A list of names, a comma between two of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Names(pub Vec<String>);

impl SettingValue for Names {
    const KIND: &'static str = "names";
    fn parse(text: &str) -> Result<Self, BadValue> {
        let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
        match text.trim() {
            "" => Ok(Names(Vec::new())),
            _ if names.iter().any(String::is_empty) => {
                Err(BadValue(format!("`{text}` is no list of names")))
            }
            _ => Ok(Names(names)),
        }
    }
    fn to_toml(&self) -> toml::Value {
        toml::Value::String(self.0.join(","))
    }
}

/// A list of folders, a comma between two of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Folders(pub Vec<PathBuf>);

impl SettingValue for Folders {
    const KIND: &'static str = "paths";
    fn parse(text: &str) -> Result<Self, BadValue> {
        let folders: Vec<&str> = text.split(',').map(str::trim).collect();
        let twice = folders.iter().enumerate().any(|(at, one)| folders[..at].contains(one));
        match text.trim() {
            "" => Ok(Folders(Vec::new())),
            _ if folders.contains(&"") || twice => {
                let what = "is not a list of different folders such as `/a/log, /b/log`";
                Err(BadValue(format!("`{text}` {what}")))
            }
            _ => Ok(Folders(folders.into_iter().map(PathBuf::from).collect())),
        }
    }
    fn to_toml(&self) -> toml::Value {
        let folders: Vec<String> = self.0.iter().map(|path| path.display().to_string()).collect();
        toml::Value::String(folders.join(","))
    }
}
