//! The engine for queries over much data, where the build has one (feature `analytics`).

use std::sync::Arc;

use anyhow::Result;
use sql::analyst::Analyst;
use storage::Store;

use crate::config::Settings;

#[cfg(feature = "analytics")]
pub fn analyst(store: Arc<Store>, settings: &Settings) -> Result<Option<Arc<dyn Analyst>>> {
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
pub fn analyst(_: Arc<Store>, _: &Settings) -> Result<Option<Arc<dyn Analyst>>> {
    Ok(None)
}
