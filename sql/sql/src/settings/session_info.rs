//! What a session knows about itself.

use engine::Party;
use types::Zone;
use types::version::SERVER_VERSION;

use crate::syntax::path::SearchPath;

/// The owner of everything, whether or not a session may log in by that name.
pub const OWNER: &str = "tally";

/// What a session knows about itself: the answers of `current_user`, `version()` and their kin.
/// They become constants of the plan; see
/// [`Bound::session_dependent`](crate::Bound::session_dependent).
#[derive(Clone, Debug)]
pub struct SessionInfo {
    /// Who has logged in, and is the principal of what the ledger is asked for.
    pub user: String,
    pub database: String,
    pub backend_pid: i32,
    pub server_version: String,
    /// What it reads and shows times in. No replica binds in another than UTC.
    pub zone: Zone,
    /// Whether what it reads is read here alone, so that expressions may depend on this node's time
    /// zone database. No replica binds so.
    pub reads_here: bool,
    /// Where it looks for names without a schema.
    pub path: SearchPath,
    /// SET ROLE; `None`: as the session's user.
    pub role: Option<String>,
    /// SET SESSION AUTHORIZATION; `None`: who logged in.
    pub authorized: Option<String>,
}

impl SessionInfo {
    /// Whose privileges statements have.
    pub fn current_user(&self) -> &str {
        self.role.as_deref().unwrap_or_else(|| self.session_user())
    }

    pub fn session_user(&self) -> &str {
        self.authorized.as_deref().unwrap_or(&self.user)
    }

    /// What the ledger is told of who asks.
    pub fn party(&self) -> Party<'_> {
        let role = self.role.as_deref().or(self.authorized.as_deref());
        Party { principal: &self.user, role: role.filter(|role| *role != self.user) }
    }
}

impl Default for SessionInfo {
    fn default() -> Self {
        SessionInfo {
            user: OWNER.into(),
            database: "tally".into(),
            backend_pid: 0,
            server_version: SERVER_VERSION.into(),
            zone: Zone::default(),
            reads_here: false,
            path: SearchPath::default(),
            role: None,
            authorized: None,
        }
    }
}
