//! What a node knows and others must not: who may read its files, and three secrets of its own.
//!
//! | File in the data folder | What it is for |
//! |---|---|
//! | `http-token` | a request that changes something has to show it |
//! | `salt-secret` | makes up salts for users that do not exist |
//! | `node-key` | signs heads: what others take for this node's word |
//!
//! All are 32 random bytes in 64 hexadecimal digits, made at the first start. They are no part of
//! the ledger: a backup does not hold them, and one that is gone is made anew.
//!
//! Modes are checked as `ssh` does it, before anything is read: a key, a password file or a ledger
//! that other users of the machine can read is no secret, and the start is refused.

use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use ledger::hash::{hash_from_hex, to_hex};
use types::{Error, SqlState};

use crate::config::{FileModes, Settings};

const SALT_SECRET: &str = "salt-secret";
const NODE_KEY: &str = "node-key";
const HTTP_TOKEN: &str = "http-token";
const TOKEN_CHARACTERS_MIN: usize = 16;

/// Refuses a folder, keys and passwords that others can read, or that are another user's.
pub fn check_modes(settings: &Settings) -> Result<()> {
    if settings.file_modes == FileModes::Any {
        return Ok(());
    }
    if settings.data.exists() {
        check_mode(&settings.data, "700")?;
    }
    let key = settings.data.join(NODE_KEY);
    if key.exists() {
        check_mode(&key, "600")?;
    }
    let files = [
        &settings.tls_key,
        &settings.password_file,
        &settings.http_token_file,
        &settings.kafka_tls_key,
        &settings.kafka_password_file,
    ];
    files.into_iter().flatten().try_for_each(|path| check_mode(path, "600"))
}

/// What root owns may be shown to a group, as a system's keys are.
fn check_mode(path: &Path, wanted: &str) -> Result<()> {
    let found = std::fs::metadata(path).with_context(|| path.display().to_string())?;
    let (mode, owner) = (found.mode() & 0o777, found.uid());
    let own = rustix::process::geteuid().as_raw();
    if owner != own && owner != 0 {
        let what = format!("{} belongs to another user than the node's", path.display());
        return Err(refused(what, &format!("chown {own} {}", path.display())));
    }
    let open_to_others = if owner == own { mode & 0o077 } else { mode & 0o027 };
    if open_to_others != 0 {
        let what = format!("{} has mode {mode:04o}: others can get at it", path.display());
        return Err(refused(what, &format!("chmod {wanted} {}", path.display())));
    }
    Ok(())
}

fn refused(what: String, command: &str) -> anyhow::Error {
    let hint = format!("{command}, or file_modes = any where a container gives the modes.");
    Error::new(SqlState::INSUFFICIENT_PRIVILEGE, what).with_hint(hint).into()
}

/// What makes up salts for users that do not exist.
pub fn salt_secret(folder: &Path) -> Result<[u8; 32]> {
    read_or_make(&folder.join(SALT_SECRET))
}

/// What heads are signed with.
pub fn node_key(folder: &Path) -> Result<[u8; 32]> {
    read_or_make(&folder.join(NODE_KEY))
}

/// What a request has to show that changes something, as a node takes it.
pub fn http_token(settings: &Settings) -> Result<String> {
    match &settings.http_token_file {
        Some(path) => read_token(path),
        None => Ok(to_hex(&read_or_make(&settings.data.join(HTTP_TOKEN))?)),
    }
}

/// The same, as a command takes it that asks a running node.
pub fn token_of_node(settings: &Settings) -> Result<String> {
    let in_folder = || settings.data.join(HTTP_TOKEN);
    read_token(&settings.http_token_file.clone().unwrap_or_else(in_folder))
}

/// Also for a file that only others write.
fn read_token(path: &PathBuf) -> Result<String> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the token in {}", path.display()))?;
    let token = text.trim_end_matches(['\r', '\n']);
    ensure!(
        token.len() >= TOKEN_CHARACTERS_MIN && token.bytes().all(|byte| byte.is_ascii_graphic()),
        "{} does not hold a token: {TOKEN_CHARACTERS_MIN} or more letters and digits on one line",
        path.display()
    );
    Ok(token.to_owned())
}

fn read_or_make(path: &Path) -> Result<[u8; 32]> {
    match std::fs::read_to_string(path) {
        Ok(text) => match hash_from_hex(text.trim_end()) {
            Ok(secret) => Ok(secret),
            Err(_) => bail!("{} is damaged: remove it, and start again", path.display()),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let secret = random()?;
            write_new(path, &secret).with_context(|| format!("cannot make {}", path.display()))?;
            Ok(secret)
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Half of one would be refused at the next start, so it has its name once it is whole.
fn write_new(path: &Path, secret: &[u8; 32]) -> std::io::Result<()> {
    let unfinished = path.with_extension("new");
    let mut options = std::fs::File::options();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&unfinished)?;
    writeln!(file, "{}", to_hex(secret))?;
    file.sync_all()?;
    std::fs::rename(&unfinished, path)?;
    path.parent().map_or(Ok(()), |folder| std::fs::File::open(folder)?.sync_all())
}

/// Bits that cannot be guessed, from the system.
pub fn random<const BYTES: usize>() -> std::io::Result<[u8; BYTES]> {
    // Of so few bytes the system always gives all.
    const { assert!(BYTES <= 256) };
    let mut bytes = [0; BYTES];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes)
}

/// Without a look at where they differ.
pub fn are_equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |found, (x, y)| found | (x ^ y)) == 0
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::folders::hint_of;

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_secret_is_made_once_and_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let secret = salt_secret(folder.path()).unwrap();
        assert_eq!(salt_secret(folder.path()).unwrap(), secret);
        let path = folder.path().join(SALT_SECRET);
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        std::fs::write(&path, "abc").unwrap();
        assert!(salt_secret(folder.path()).is_err());
        std::fs::remove_file(&path).unwrap();
        assert_ne!(salt_secret(folder.path()).unwrap(), secret);
    }

    #[test]
    fn the_token_is_the_nodes_own_or_a_files() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().to_owned();
        let mut settings = Settings { data, ..Settings::defaults().unwrap() };
        assert!(token_of_node(&settings).is_err(), "no node has made one");
        let token = http_token(&settings).unwrap();
        assert_eq!(token_of_node(&settings).unwrap(), token);
        let file = folder.path().join("mine");
        settings.http_token_file = Some(file.clone());
        for (text, is_token) in
            [("0123456789abcdef\n", true), ("short", false), ("0123456789abcdef x", false)]
        {
            std::fs::write(&file, text).unwrap();
            assert_eq!(http_token(&settings).is_ok(), is_token, "{text}");
            assert_eq!(token_of_node(&settings).is_ok(), is_token, "{text}");
        }
    }

    #[test]
    fn what_others_can_read_is_refused_with_the_command_that_helps() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("users");
        std::fs::write(&file, "").unwrap();
        let data = folder.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let mut settings = Settings {
            data: data.clone(),
            password_file: Some(file.clone()),
            ..Settings::defaults().unwrap()
        };
        for (path, modes, command) in [
            (&data, [0o750, 0o705, 0o710], "chmod 700"),
            (&file, [0o640, 0o604, 0o620], "chmod 600"),
        ] {
            for other in [&data, &file] {
                set_mode(other, if other == &data { 0o700 } else { 0o600 });
            }
            check_modes(&settings).unwrap();
            for mode in modes {
                set_mode(path, mode);
                let refusal = check_modes(&settings).unwrap_err();
                assert!(hint_of(&refusal).unwrap().starts_with(command), "{refusal}");
            }
        }
        settings.file_modes = FileModes::Any;
        check_modes(&settings).unwrap();
    }
}
