//! What a node reads again on SIGHUP: users, certificates, keys, the token of the second port.
//!
//! Each piece is taken by itself. One that cannot be used is named in the log, and what was in
//! force stays in force. Sessions that are there go on, also those of a user who is gone.

use std::sync::{Arc, PoisonError, RwLock};

use anyhow::{Context, Result};
use pgfront::{Tls, TlsFiles};
use tracing::{error, info};

use crate::config::Settings;
use crate::http::Guard;
use crate::secrets;
use crate::users::Users;

/// Users, as those that ask find them.
#[derive(Clone, Debug)]
pub struct SharedUsers(Arc<RwLock<Arc<Users>>>);

impl SharedUsers {
    pub fn new(users: Users) -> SharedUsers {
        SharedUsers(Arc::new(RwLock::new(Arc::new(users))))
    }

    pub fn now(&self) -> Arc<Users> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn replace(&self, users: Users) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(users);
    }
}

/// All that can be read again.
pub struct Reloadable {
    pub settings: Settings,
    pub users: SharedUsers,
    pub tls: Option<Tls>,
    pub guard: Arc<Guard>,
}

impl Reloadable {
    pub fn reload(&self) {
        let pieces: [(&str, fn(&Reloadable) -> Result<()>); 3] = [
            ("users", Reloadable::reload_users),
            ("certificates", Reloadable::reload_tls),
            ("token", Reloadable::reload_token),
        ];
        for (piece, reload) in pieces {
            match secrets::check_modes(&self.settings).and_then(|()| reload(self)) {
                Ok(()) => info!(piece, "read again"),
                Err(error) => error!(piece, "not read again, what was in force stays: {error:#}"),
            }
        }
    }

    fn reload_users(&self) -> Result<()> {
        self.users.replace(Users::read(self.settings.password_file.as_deref())?);
        Ok(())
    }

    fn reload_tls(&self) -> Result<()> {
        if let (Some(tls), Some(read)) = (&self.tls, tls(&self.settings)?) {
            tls.replace(&read);
        }
        Ok(())
    }

    fn reload_token(&self) -> Result<()> {
        self.guard.expect(secrets::http_token(&self.settings)?);
        Ok(())
    }
}

/// The settings' certificates, if there are any.
pub fn tls(settings: &Settings) -> Result<Option<Tls>> {
    let (Some(certificates), Some(key)) = (&settings.tls_certificate, &settings.tls_key) else {
        return Ok(None);
    };
    let files = TlsFiles {
        certificates,
        key,
        client_ca: settings.tls_client_ca.as_deref(),
        version_min: settings.tls_version_min.into(),
    };
    Tls::from_files(&files).context("TLS cannot be set up").map(Some)
}
