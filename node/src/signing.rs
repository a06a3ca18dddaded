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
use types::{DataType, Value};

use crate::cli::{Exit, Output};
use crate::signing_commands::{Approve, IdentityAction, Sign, SignAction};
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
    let key = key.as_deref().map(read).transpose()?;
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
    if let Some(key) = &key {
        envelope.sign(key, &mut room)?;
    }
    print(&envelope, key.as_ref(), output)
}

fn print(envelope: &View<'_>, key: Option<&SecretKey>, output: Output) -> Result<Exit> {
    let bytes = to_hex(&envelope.encode()?);
    match output {
        Output::Text => println!("\\x{bytes}"),
        Output::Json => {
            let (id, key) = (to_hex(&envelope.id()?), key.map(|key| to_hex(&key.public())));
            println!("{}", json!({ "envelope": bytes, "id": id, "key": key }));
        }
    }
    Ok(Exit::Ok)
}

/// What is approved is shown first, on the other stream.
pub fn approve(arguments: &Approve, output: Output) -> Result<Exit> {
    let key = read(&arguments.key)?;
    let bytes = from_hex(arguments.envelope.trim_start_matches("\\x"))
        .ok()
        .context("the envelope is no text of hexadecimal digits")?;
    let mut envelope = View::read(&bytes)?;
    if envelope.ledger_id != arguments.ledger {
        bail!("the envelope is for the ledger {}", to_hex(&envelope.ledger_id));
    }
    let body = Body::from_request(envelope.request)?;
    eprintln!("{} asks for: {}", envelope.principal, body.describe());
    let mut room = [0; 64];
    envelope.approve(&key, &mut room)?;
    print(&envelope, Some(&key), output)
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
}
