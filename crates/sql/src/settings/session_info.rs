//! What a session knows about itself.

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
    pub user: String,
    pub database: String,
    pub backend_pid: i32,
    pub server_version: String,
    /// What it reads and shows times in. No replica binds in another than UTC.
    pub zone: Zone,
    /// Where it looks for names without a schema.
    pub path: SearchPath,
    /// Whether the user may do what concerns all of them: change the ledger's parameters, pin
    /// blocks.
    pub is_owner: bool,
}

impl Default for SessionInfo {
    fn default() -> Self {
        SessionInfo {
            user: OWNER.into(),
            database: "tally".into(),
            backend_pid: 0,
            server_version: SERVER_VERSION.into(),
            zone: Zone::default(),
            path: SearchPath::default(),
            is_owner: true,
        }
    }
}
