//! Promised times: measured, printed, and held to.
//!
//! A test's build is not optimised and has other tests beside it, so it may take a factor more;
//! `PROMISES=strict` asks for the promise itself (`make figures-reliability`). Its name begins as no
//! setting's does: a node, which inherits it, refuses settings that it does not know.

use std::time::Duration;

/// What a build without optimisation on a loaded machine may take, unless a promise says otherwise.
const FACTOR: f64 = 3.0;

pub struct Promise {
    what: &'static str,
    time: Duration,
    factor: f64,
}

impl Promise {
    pub const fn new(what: &'static str, time: Duration) -> Promise {
        Promise { what, time, factor: FACTOR }
    }

    /// Where the usual factor does not do.
    #[allow(dead_code)]
    pub const fn times(self, factor: f64) -> Promise {
        Promise { factor, ..self }
    }

    /// The longest that it may take here.
    pub fn bound(&self) -> Duration {
        let is_strict = std::env::var_os("PROMISES").is_some_and(|how| how == "strict");
        self.time.mul_f64(if is_strict { 1.0 } else { self.factor })
    }

    /// # Panics
    /// It took longer.
    #[track_caller]
    pub fn hold(&self, measured: Duration) {
        let Promise { what, time, .. } = self;
        println!("promise  {what}: {measured:.1?}, promised {time:?}");
        let bound = self.bound();
        assert!(measured <= bound, "{what}: {measured:?}, promised {time:?}, here {bound:?}");
    }
}
