//! How a database is made: a ledger's first two blocks, in a folder that no node runs on.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use ledger::{Files, RealFiles};
use sql::databases::MadeLedger;
use sql::session::shared_state::databases::NewDatabase;
use types::{Error, Result, SqlState};

use crate::config::Settings;
use crate::database;
use crate::databases::folders::{self, Folders};

/// The node's settings, for a database in a folder.
pub fn settings_in(node: &Settings, data: PathBuf) -> Settings {
    let mut settings = Settings { data, ..node.clone() };
    // Those that row loggers are told are of one ledger.
    settings.log_folders.0.clear();
    settings
}

/// # Errors
/// 22023: there is no such protocol; 58030, 53100: the disk does not take it.
pub fn make(node: &Settings, folders: &Folders, new: &NewDatabase) -> Result<MadeLedger> {
    let mut settings = settings_in(node, PathBuf::new());
    settings.owner.clone_from(&new.superuser);
    if let Some(protocol) = &new.protocol {
        settings.protocol.clone_from(protocol);
    }
    let genesis =
        database::genesis(&settings).map_err(|error| match error.downcast::<Error>() {
            Ok(own) => own,
            Err(error) => Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("{error:#}")),
        })?;
    let made = in_folder(settings, folders, new, &genesis);
    made.map_err(|error| {
        _ = folders.forget(&genesis.ledger_id);
        failed(&error, &new.name)
    })
}

fn failed(error: &anyhow::Error, name: &str) -> Error {
    let io = error.downcast_ref::<std::io::Error>().map(ledger::files::sqlstate_of);
    let own = error.downcast_ref::<Error>().map(Error::code);
    let code = own.or(io).unwrap_or(SqlState::IO_ERROR);
    let what = format!("database \"{name}\" cannot be made");
    Error::new(code, what).with_detail(format!("{error:#}"))
}

fn in_folder(
    mut settings: Settings,
    folders: &Folders,
    new: &NewDatabase,
    genesis: &ledger::Genesis,
) -> anyhow::Result<MadeLedger> {
    settings.data = folders.begin(&genesis.ledger_id)?;
    let files: Arc<dyn Files> = Arc::new(RealFiles::open(&settings.data)?);
    let hash = genesis.to_block()?.result.hash();
    database::found(files.clone(), genesis, database::log_options(&settings))?;
    database::run_first(&settings, files, &new.superuser, &new.statements)
        .context("what it begins with cannot be run")?;
    folders::write_name(&settings.data, &new.name)?;
    if let Some(above) = settings.data.parent() {
        folders::sync(above)?;
    }
    Ok(MadeLedger { id: genesis.ledger_id, genesis: hash })
}
