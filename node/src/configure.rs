//! `tally config`: write, check, show; and how the other commands come to their settings.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::json;

use crate::cli::{self, ConfigAction, Exit, Output};
use crate::config::table::Scope;
use crate::config::{self, ConfigError, Inputs, Resolved, SETTINGS, page};
use crate::folders;

/// The effective settings of this process.
pub fn resolve(flags: &cli::Settings) -> Result<Resolved, ConfigError> {
    config::resolve(&Inputs {
        file: flags.config.clone(),
        flags: flags.flags(),
        environment: std::env::vars_os()
            .filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?)))
            .collect(),
    })
}

pub fn run(arguments: &cli::Config, output: Output) -> Result<Exit> {
    match &arguments.action {
        ConfigAction::Init { file, data } => init(file.as_deref(), data.as_deref(), output),
        ConfigAction::Check(flags) => check(&resolve(flags)?, output),
        ConfigAction::Show(flags) => show(&resolve(flags)?, output),
        ConfigAction::Password { user, iterations } => password(user, *iterations, output),
    }
}

/// Unless a file is named, the one that a node finds by itself.
fn init(named: Option<&Path>, data: Option<&Path>, output: Output) -> Result<Exit> {
    let found = match named {
        Some(file) => file.to_owned(),
        None => {
            let variable = std::env::var_os("TALLY_DATA").map(PathBuf::from);
            let data = data.map(Path::to_owned).or(variable);
            let data = data.map_or_else(|| config::Settings::defaults().map(|s| s.data), Ok);
            let data = data.map_err(|fault| anyhow!(fault))?;
            folders::create_private(&data)
                .with_context(|| format!("cannot create {}", data.display()))?;
            data.join(config::FILE_NAME)
        }
    };
    let mut created = std::fs::File::create_new(&found)
        .with_context(|| format!("cannot create {}", found.display()))?;
    created.write_all(page::commented_file().as_bytes())?;
    let file = found.display().to_string();
    match output {
        Output::Text if named.is_some() => {
            println!("wrote {file}; a node reads it if it is started with --config {file}");
        }
        Output::Text => println!("wrote {file}"),
        Output::Json => println!("{}", json!({"written": file})),
    }
    Ok(Exit::Ok)
}

fn check(resolved: &Resolved, output: Output) -> Result<Exit> {
    let file = resolved.file.as_ref().map(|path| path.display().to_string());
    match output {
        Output::Text => {
            println!("valid: {}", file.as_deref().unwrap_or("no file, the defaults apply"))
        }
        Output::Json => println!("{}", json!({"valid": true, "file": file})),
    }
    Ok(Exit::Ok)
}

fn show(resolved: &Resolved, output: Output) -> Result<Exit> {
    let rows = SETTINGS.iter().filter_map(|setting| {
        let value = resolved.settings.get(setting.key)?;
        let source = resolved.sources.get(setting.key)?;
        Some((setting, value, source))
    });
    match output {
        Output::Text => {
            for (setting, value, source) in rows {
                let assignment = format!("{} = {value}", setting.key);
                println!("{assignment:<40}  # {source}");
            }
        }
        Output::Json => {
            let object: serde_json::Map<_, _> = rows
                .map(|(setting, value, source)| {
                    let entry = json!({
                        "value": value,
                        "source": source.to_string(),
                        "kind": setting.kind,
                        "variable": setting.environment_name(),
                        "genesis_only": setting.scope == Scope::Genesis,
                    });
                    (setting.key.to_owned(), entry)
                })
                .collect();
            println!("{}", serde_json::Value::Object(object));
        }
    }
    Ok(Exit::Ok)
}

fn password(user: &str, iterations: u32, output: Output) -> Result<Exit> {
    if user.is_empty() || user.contains([':', '\n']) {
        bail!("a user's name is not empty and holds no colon");
    }
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let password = line.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        bail!("the password on standard input is empty");
    }
    let verifier = pgfront::Verifier::from_password(password, iterations)?;
    let line = format!("{user}:{}", verifier.to_text());
    match output {
        Output::Text => println!("{line}"),
        Output::Json => println!("{}", json!({"user": user, "line": line})),
    }
    Ok(Exit::Ok)
}
