//! `tally identity` makes keys and shows them; `tally sign` makes transactions that bear their
//! user's signature, without a node and without a connection.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use engine::{Body, ParameterTypes};
use ledger::hash::{from_hex, hash_from_hex, to_hex};
use ledger::signatures::SecretKey;
use order::{Submission, View};
use serde_json::json;
use types::{DataType, SqlState, Value};

use crate::cli::{Exit, IdentityAction, Output, Sign, SignAction};
use crate::{database, secrets};

pub fn identity(action: &IdentityAction, output: Output) -> Result<Exit> {
    let key = match action {
        IdentityAction::New { file } => {
            let seed = secrets::random()?;
            write_new(file, &seed).with_context(|| format!("cannot make {}", file.display()))?;
            SecretKey::of_seed(seed)
        }
        IdentityAction::Show { file } => read(file)?,
        IdentityAction::Node { data } => SecretKey::of_seed(secrets::node_key(data)?),
    };
    let public = to_hex(&key.public());
    match output {
        Output::Text => println!("{public}"),
        Output::Json => println!("{}", json!({ "key": public })),
    }
    Ok(Exit::Ok)
}

/// Never over another one, which may be the only copy.
fn write_new(file: &Path, seed: &[u8; 32]) -> std::io::Result<()> {
    let mut new = std::fs::File::options().write(true).create_new(true).mode(0o600).open(file)?;
    writeln!(new, "{}", to_hex(seed))?;
    new.sync_all()
}

fn read(file: &Path) -> Result<SecretKey> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    // What stands there instead is not told: it may be a part of a key.
    match hash_from_hex(text.trim_end()) {
        Ok(seed) => Ok(SecretKey::of_seed(seed)),
        Err(_) => bail!("{} holds no key that tally identity has made", file.display()),
    }
}

pub fn sign(arguments: &Sign, output: Output) -> Result<Exit> {
    let Sign { key, user, ledger, role, name, expires, action } = arguments;
    let key = read(key)?;
    let body = match action {
        SignAction::Call { procedure, arguments } => {
            let arguments: Vec<Value> =
                arguments.iter().map(|text| argument(text)).collect::<Result<_>>()?;
            Body::call(procedure.clone(), arguments)
        }
        SignAction::Statement { text } => {
            Body::statement(text.clone(), ParameterTypes::default(), Vec::new())
        }
        SignAction::Schema { text } => Body::Schema { text: text.clone() },
    };
    let submitter = secrets::random()?;
    let submission = match name {
        Some(name) => Submission::Key(name.as_str()),
        None => Submission::Sequence { submitter, sequence: 0 },
    };
    let expires_us = (database::clock())().saturating_add(i64::from(*expires) * 1_000_000);
    let request = body.to_request();
    let mut envelope = View {
        ledger_id: *ledger,
        principal: user,
        submission,
        expires_us,
        seen_height: 0,
        settings: role.iter().map(|role| ("role", role.as_str())).collect(),
        seed: [0; 16],
        request: &request,
        signatures: Vec::new(),
        approvals: Vec::new(),
    };
    let mut room = [0; 64];
    envelope.sign(&key, &mut room)?;
    let bytes = to_hex(&envelope.encode()?);
    match output {
        Output::Text => println!("\\x{bytes}"),
        Output::Json => {
            let (id, key) = (to_hex(&envelope.id()?), to_hex(&key.public()));
            println!("{}", json!({ "envelope": bytes, "id": id, "key": key }));
        }
    }
    Ok(Exit::Ok)
}

/// An integer, a numeric with a point, true, false, null; else a text, in quotes where it looks
/// like one of these.
fn argument(text: &str) -> Result<Value> {
    let quoted = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    if let Some(quoted) = quoted {
        return Ok(Value::text(&quoted.replace("''", "'")));
    }
    if let Ok(number) = i64::from_str(text) {
        return Ok(Value::Int(number));
    }
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || b"-.".contains(&byte))
        && text.bytes().any(|byte| byte.is_ascii_digit());
    Ok(match text {
        "null" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        number if is_number => {
            types::cast::cast(&Value::text(number), &DataType::Numeric(None), true)?
        }
        text => Value::text(text),
    })
}

/// 32 hexadecimal digits.
pub fn ledger_id(text: &str) -> types::Result<[u8; 16]> {
    let id = from_hex(text).ok().and_then(|id| <[u8; 16]>::try_from(id).ok());
    id.ok_or_else(|| {
        let what = "a ledger's id has 32 hexadecimal digits";
        types::Error::new(SqlState::INVALID_TEXT_REPRESENTATION, what)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_what_they_look_like() {
        for (text, value) in [
            ("7", Value::Int(7)),
            ("-7", Value::Int(-7)),
            ("'7'", Value::text("7")),
            ("'it''s'", Value::text("it's")),
            ("null", Value::Null),
            ("true", Value::Bool(true)),
            ("one two", Value::text("one two")),
            ("", Value::text("")),
            ("-", Value::text("-")),
        ] {
            assert_eq!(argument(text).unwrap(), value, "{text}");
        }
        assert!(matches!(argument("1.50").unwrap(), Value::Numeric(_)));
        assert!(argument("1.5.0").is_err());
    }

    #[test]
    fn a_ledgers_id_has_32_digits() {
        assert_eq!(ledger_id(&"0a".repeat(16)).unwrap(), [10; 16]);
        for wrong in ["", "0a", &"0a".repeat(32), &"0x".repeat(16), &"é".repeat(16)] {
            assert!(ledger_id(wrong).is_err(), "{wrong}");
        }
    }
}
