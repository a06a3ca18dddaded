//! Rate limiting of log lines: each cause is logged at once when it is new, and then at most once
//! in a while, with a count of what was left out.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use kit::sync::lock;
use tokio::time::Instant;

/// Of one cause.
const EVERY: Duration = Duration::from_secs(60);
/// Causes that are distinguished; more of them are told as if they were new.
const CAUSES_MAX: usize = 64;

/// Says when one cause was last told.
#[derive(Default)]
pub struct Seldom(Mutex<BTreeMap<String, (Instant, u64)>>);

impl Seldom {
    /// Whether it is to be told now, and how often it was not since it was told last.
    pub fn is_due(&self, cause: &str) -> Option<u64> {
        let mut reported = lock(&self.0);
        if let Some((at, unreported)) = reported.get_mut(cause) {
            if at.elapsed() < EVERY {
                *unreported += 1;
                return None;
            }
            *at = Instant::now();
            return Some(std::mem::take(unreported));
        }
        if reported.len() >= CAUSES_MAX {
            reported.retain(|_, (at, _)| at.elapsed() < EVERY);
            let oldest =
                reported.iter().min_by_key(|(_, (at, _))| *at).map(|(cause, _)| cause.clone());
            if reported.len() >= CAUSES_MAX
                && let Some(oldest) = oldest
            {
                reported.remove(&oldest);
            }
        }
        reported.insert(cause.to_owned(), (Instant::now(), 0));
        debug_assert!(reported.len() <= CAUSES_MAX, "causes are bounded");
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_cause_is_told_once_a_minute_and_another_one_at_once() {
        let seldom = Seldom::default();
        let mut reported = Vec::new();
        for _ in 0..240 {
            reported.extend(seldom.is_due("refused"));
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        assert_eq!(reported, [0, 119], "in two minutes");
        assert_eq!(seldom.is_due("another"), Some(0));
        (0..1000).for_each(|cause| _ = seldom.is_due(&cause.to_string()));
        assert!(seldom.0.lock().unwrap().len() <= CAUSES_MAX);
    }
}
