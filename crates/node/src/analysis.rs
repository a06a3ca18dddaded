//! Who answers queries that the fast path does not: system catalogs, and the engine for queries
//! over much data where the build has one (feature `analytics`).

use std::sync::Arc;

use anyhow::Result;
use pgcatalog::SystemAnalyst;
use sql::analyst::Analyst;
use storage::Store;

use crate::config::Settings;
use crate::users::Users;

/// Who owns everything, whether or not anybody may log in by that name.
const OWNER: &str = "tally";

pub fn analyst(store: Arc<Store>, settings: &Settings) -> Result<Arc<dyn Analyst>> {
    let users = Users::read(settings.password_file.as_deref())?;
    let others = users.names().filter(|name| *name != OWNER);
    let roles = std::iter::once(OWNER).chain(others).map(str::to_owned).collect();
    Ok(Arc::new(SystemAnalyst::new(roles, columnar(store, settings)?)))
}

#[cfg(feature = "analytics")]
fn columnar(store: Arc<Store>, settings: &Settings) -> Result<Option<Arc<dyn Analyst>>> {
    use crate::database::workers;
    use analytics::{Analytics, AnalyticsOptions};
    use anyhow::Context;

    let options = AnalyticsOptions {
        threads: workers(settings.analytics_threads),
        image_bytes_max: settings.image_bytes_max,
        query_bytes_max: usize::try_from(settings.analytics_memory_bytes_max).unwrap_or(usize::MAX),
        spill_folder: settings.analytics_spill_folder.clone(),
    };
    let analytics = Analytics::new(store, &options).context("cannot start analytical queries")?;
    Ok(Some(Arc::new(analytics)))
}

#[cfg(not(feature = "analytics"))]
fn columnar(_: Arc<Store>, _: &Settings) -> Result<Option<Arc<dyn Analyst>>> {
    Ok(None)
}
