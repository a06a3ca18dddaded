//! Looks protocols up by name, those of registered studies among them.

use std::sync::Arc;

use concurrency::{Protocol, Watch};
use types::Error;

pub(crate) fn protocol(text: &str) -> Result<Arc<dyn Protocol>, Error> {
    multiversion::register();
    protocols::by_name(text)
}

/// See [`protocols::measured`].
pub(crate) fn measured(
    text: &str,
    validates: bool,
    interleaved: usize,
    watch: Option<Arc<Watch>>,
) -> Result<Arc<dyn Protocol>, Error> {
    multiversion::register();
    protocols::measured(text, validates, interleaved, watch)
}
