//! Clients that send what is due, and what becomes of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use bench::over_network::NetworkPlan;
use futures::future::try_join_all;
use hdrhistogram::Histogram;
use tokio::time::{Instant, sleep_until};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Statement};
use types::Value;
use workloads::{Call, Workload};

use super::ledgers::Ledger;

/// A longer latency counts as this.
const LATENCY_US_MAX: u64 = 600_000_000;

/// How a transaction ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Valid,
    /// Before it was ordered: what it read was overtaken while its node simulated it.
    AbortedEarly,
    /// Before it was ordered: another node had met newer rows than the client's own.
    MemberAhead,
    /// In a cycle of conflicts, from which it was taken.
    AbortedInOrdering,
    /// It is in its block, with 40001.
    Invalid,
    /// Too few have endorsed it, or they have come to different things.
    NotEndorsed,
    /// No client was free to send it before the run was over.
    NotSent,
    /// Any other error.
    Failed,
}

impl End {
    pub const ALL: [End; 8] = [
        End::Valid,
        End::AbortedEarly,
        End::MemberAhead,
        End::AbortedInOrdering,
        End::Invalid,
        End::NotEndorsed,
        End::NotSent,
        End::Failed,
    ];

    pub fn name(self) -> &'static str {
        match self {
            End::Valid => "valid",
            End::AbortedEarly => "aborted_early",
            End::MemberAhead => "member_ahead",
            End::AbortedInOrdering => "aborted_in_ordering",
            End::Invalid => "invalid",
            End::NotEndorsed => "not_endorsed",
            End::NotSent => "not_sent",
            End::Failed => "failed",
        }
    }

    pub fn short(self) -> &'static str {
        match self {
            End::AbortedEarly => "early",
            End::MemberAhead => "ahead",
            End::AbortedInOrdering => "ordering",
            End::NotEndorsed => "unendorsed",
            End::NotSent => "unsent",
            end => end.name(),
        }
    }

    /// By code and detail, as a client is told them.
    fn of(code: &str, detail: &str) -> End {
        match code {
            "40001" if detail.contains("while it was simulated") => End::AbortedEarly,
            "40001" if detail.contains("was changed since. It is") => End::MemberAhead,
            "40001" if detail.contains("in a cycle of conflicts") => End::AbortedInOrdering,
            "40001" => End::Invalid,
            "42T01" | "42T02" => End::NotEndorsed,
            _ => End::Failed,
        }
    }

    fn of_answer<T>(answer: &Result<T, Error>) -> End {
        match answer.as_ref().map_err(Error::as_db_error) {
            Ok(_) => End::Valid,
            Err(Some(error)) => End::of(error.code().code(), error.detail().unwrap_or_default()),
            Err(None) => End::Failed,
        }
    }
}

/// When transactions are due, on each ledger alike.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    between: Duration,
    /// With those that come before it is measured.
    count: u64,
    warm_up: u64,
    /// After the last is due, for clients to send what is left.
    patience: Duration,
}

impl Pace {
    pub fn of(plan: &NetworkPlan) -> Pace {
        let per_second = |seconds: f64| (seconds * plan.rate) as u64;
        let warm_up = per_second(plan.warm_up);
        Pace {
            between: Duration::from_secs_f64(1.0 / plan.rate),
            count: warm_up + per_second(plan.seconds).max(1),
            warm_up,
            patience: Duration::from_secs(1),
        }
    }

    /// After the begin.
    fn due(&self, number: u64) -> Duration {
        Duration::from_secs_f64(self.between.as_secs_f64() * number as f64)
    }

    fn measured(&self) -> Duration {
        self.due(self.count - self.warm_up)
    }
}

/// Latencies of one end each, in microseconds from when the transaction was due.
pub struct Load {
    ends: [Histogram<u64>; End::ALL.len()],
    /// Over which they were due.
    pub seconds: f64,
    /// The first error that is none of the ends that are looked for.
    pub failure: Option<String>,
}

impl Load {
    fn new(pace: &Pace) -> Result<Load> {
        let mut ends = Vec::new();
        for _ in End::ALL {
            ends.push(Histogram::new_with_bounds(1, LATENCY_US_MAX, 3)?);
        }
        let ends = ends.try_into().ok().context("one histogram for each end")?;
        Ok(Load { ends, seconds: pace.measured().as_secs_f64(), failure: None })
    }

    pub fn of(&self, end: End) -> &Histogram<u64> {
        &self.ends[end as usize]
    }

    pub fn due(&self) -> u64 {
        self.ends.iter().map(Histogram::len).sum()
    }

    pub fn share(&self, end: End) -> f64 {
        self.of(end).len() as f64 / self.due().max(1) as f64
    }

    pub fn per_second(&self, end: End) -> f64 {
        self.of(end).len() as f64 / self.seconds
    }

    /// Of all that were aborted or invalid: when their clients were told.
    pub fn lost(&self) -> Histogram<u64> {
        let mut lost = self.of(End::AbortedEarly).clone();
        for end in [End::MemberAhead, End::AbortedInOrdering, End::Invalid] {
            lost.add(self.of(end)).expect("histograms of the same bounds");
        }
        lost
    }

    fn record(&mut self, end: End, latency: Duration) {
        let latency_us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.ends[end as usize].saturating_record(latency_us.clamp(1, LATENCY_US_MAX));
    }

    fn add(&mut self, other: Load) -> Result<()> {
        for (ours, theirs) in self.ends.iter_mut().zip(&other.ends) {
            ours.add(theirs)?;
        }
        self.failure = self.failure.take().or(other.failure);
        Ok(())
    }
}

/// Has all ledgers' clients send what is due, and counts what came of it.
pub async fn measure(
    ledgers: &[Ledger],
    workload: &dyn Workload,
    pace: &Pace,
    (clients, seed): (u32, u64),
) -> Result<Load> {
    let texts = texts(workload);
    let mut ready = Vec::new();
    for (number, ledger) in (0_u64..).zip(ledgers) {
        let next = Arc::new(AtomicU64::new(0));
        for client in 0..clients {
            let seed = seed.wrapping_add(number << 32 | u64::from(client));
            let connected = ledger.connect(client).await?;
            let mut statements = Vec::new();
            for text in &texts {
                statements.push(match text {
                    Some(text) => {
                        Some(connected.prepare(text).await.with_context(|| text.clone())?)
                    }
                    None => None,
                });
            }
            let calls = workload.calls(seed);
            let server = Prepared { client: connected, statements, calls };
            ready.push(Sender { server, next: Arc::clone(&next) });
        }
    }
    let (began, pace) = (Instant::now(), *pace);
    let senders = ready.into_iter().map(|sender| tokio::spawn(sender.send(began, pace)));
    let mut load = Load::new(&pace)?;
    for sent in try_join_all(senders).await? {
        load.add(sent?)?;
    }
    Ok(load)
}

/// How each procedure is called that the workload draws at all.
fn texts(workload: &dyn Workload) -> Vec<Option<String>> {
    let (schema, names) = (workload.schema(), workload.procedures());
    let mut texts = vec![None; names.len()];
    // Each comes up among so many: none is drawn too seldom to be measured.
    for Call { procedure, arguments } in workload.calls(0).take(10_000) {
        texts[procedure].get_or_insert_with(|| {
            let name = names[procedure];
            let places: Vec<String> = (1..=arguments.len()).map(|n| format!("${n}")).collect();
            let verb = match schema.contains(&format!("CREATE PROCEDURE {name}(")) {
                true => "CALL",
                false => "SELECT",
            };
            format!("{verb} {name}({})", places.join(", "))
        });
    }
    texts
}

/// Where transactions are sent to.
trait Server: Send {
    /// The next transaction: how it ended, and what was said of an end that is a failure.
    fn call(&mut self) -> impl Future<Output = Result<(End, Option<String>)>> + Send;
}

/// One client of a ledger.
struct Sender<S> {
    server: S,
    /// The number of the transaction that no client of the ledger has taken yet.
    next: Arc<AtomicU64>,
}

impl<S: Server> Sender<S> {
    async fn send(mut self, began: Instant, pace: Pace) -> Result<Load> {
        let mut load = Load::new(&pace)?;
        let until = began + pace.due(pace.count) + pace.patience;
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= pace.count {
                return Ok(load);
            }
            let due = began + pace.due(number);
            let end = match Instant::now() > until {
                true => End::NotSent,
                false => {
                    sleep_until(due).await;
                    let (end, failure) = self.server.call().await?;
                    load.failure = load.failure.take().or(failure);
                    end
                }
            };
            if number >= pace.warm_up {
                load.record(end, due.elapsed());
            }
        }
    }
}

/// A node of a ledger, with what it is asked for.
struct Prepared {
    client: Client,
    /// By procedure.
    statements: Vec<Option<Statement>>,
    calls: Box<dyn Iterator<Item = Call> + Send>,
}

impl Server for Prepared {
    async fn call(&mut self) -> Result<(End, Option<String>)> {
        let Call { procedure, arguments } = self.calls.next().context("calls without end")?;
        let arguments = arguments.iter().map(argument).collect::<Result<Vec<_>>>()?;
        let arguments: Vec<&(dyn ToSql + Sync)> =
            arguments.iter().map(|it| &**it as &(dyn ToSql + Sync)).collect();
        let statement = self.statements[procedure].as_ref();
        let statement = statement.context("a procedure that was not drawn before")?;
        let answer = self.client.query(statement, &arguments).await;
        let end = End::of_answer(&answer);
        Ok(match (end, answer) {
            (End::Failed | End::NotEndorsed, Err(error)) => (end, Some(said(&error))),
            _ => (end, None),
        })
    }
}

fn said(error: &Error) -> String {
    match error.as_db_error() {
        Some(error) => {
            let detail = error.detail().unwrap_or_default();
            format!("{}: {} {detail}", error.code().code(), error.message())
        }
        None => error.to_string(),
    }
}

fn argument(value: &Value) -> Result<Box<dyn ToSql + Sync + Send>> {
    Ok(match value {
        Value::Int(number) => Box::new(*number),
        Value::Text(_) => Box::new(value.to_string()),
        value => {
            let values = value.as_array().with_context(|| format!("an argument {value}"))?;
            let numbers = values.iter().map(|value| value.as_int());
            Box::new(numbers.collect::<Option<Vec<i64>>>().context("an array of numbers")?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_told_apart_by_what_the_client_is_told() {
        let cycle = "The transaction was in a cycle of conflicts with others of its block.";
        let other = "What the transaction read was changed since. It is at the key (7) of table t.";
        for (code, detail, end) in [
            ("40001", "What the transaction read was changed since.", End::Invalid),
            (
                "40001",
                "What the transaction read was changed by block 7 while it was simulated.",
                End::AbortedEarly,
            ),
            ("40001", other, End::MemberAhead),
            ("40001", cycle, End::AbortedInOrdering),
            ("40001", "A row that the transaction read was changed since.", End::Invalid),
            ("42T01", "The policy is AND(bank_a, bank_b): bank_b is missing.", End::NotEndorsed),
            ("23514", "", End::Failed),
        ] {
            assert_eq!(End::of(code, detail), end, "{code} {detail}");
        }
    }

    /// Answers nothing before a moment, and at once after it.
    struct Stalling {
        until: Instant,
        asked: u64,
    }

    impl Server for Stalling {
        async fn call(&mut self) -> Result<(End, Option<String>)> {
            sleep_until(self.until).await;
            self.asked += 1;
            Ok(match self.asked % 2 {
                0 => (End::Invalid, None),
                _ => (End::Valid, Some("odd".to_owned())),
            })
        }
    }

    fn sent(clients: u64, stall: Duration, pace: Pace) -> Load {
        // The clock stands still but where all wait for it: times are exact.
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (began, next) = (Instant::now(), Arc::new(AtomicU64::new(0)));
            let senders = (0..clients).map(|_| {
                let server = Stalling { until: began + stall, asked: 0 };
                Sender { server, next: Arc::clone(&next) }.send(began, pace)
            });
            let mut load = Load::new(&pace).unwrap();
            for one in try_join_all(senders).await.unwrap() {
                load.add(one).unwrap();
            }
            load
        })
    }

    /// A server that answers nothing for a while is charged with all that were due meanwhile, not
    /// with the one that it was asked for.
    #[test]
    fn latency_counts_from_when_a_transaction_was_due() {
        let (between, patience) = (Duration::from_millis(2), Duration::from_secs(60));
        let pace = Pace { between, count: 200, warm_up: 100, patience };
        assert_eq!(pace.measured(), Duration::from_millis(200));
        // Number 100 is due at 200 ms, the last at 398; all are sent at 400.
        let load = sent(1, Duration::from_millis(400), pace);
        assert_eq!((load.due(), load.of(End::NotSent).len()), (100, 0), "warm-up does not count");
        assert_eq!([End::Valid, End::Invalid].map(|end| load.of(end).len()), [50, 50]);
        assert_eq!(load.per_second(End::Valid), 250.0);
        assert_eq!(load.failure.as_deref(), Some("odd"));
        let mut all = load.of(End::Valid).clone();
        all.add(load.of(End::Invalid)).unwrap();
        // 2, 4, … 200 ms after they were due.
        for (percentile, ms) in [(100.0, 200), (75.0, 150), (50.0, 100), (25.0, 50), (1.0, 2)] {
            let us = all.value_at_percentile(percentile);
            assert!(all.equivalent(us, 1000 * ms), "{percentile} %: {us} us, not {ms} ms");
        }
    }

    /// One for which no client was free in time is counted, and not sent; each is counted once.
    #[test]
    fn what_no_client_was_free_for_is_not_sent() {
        let (between, patience) = (Duration::from_millis(1), Duration::from_millis(20));
        let pace = Pace { between, count: 60, warm_up: 0, patience };
        let load = sent(3, Duration::from_millis(200), pace);
        assert_eq!(load.due(), 60);
        let valid = load.of(End::Valid);
        assert_eq!(valid.len(), 3, "one of each client");
        // Due at once, and 1 and 2 ms later.
        assert!(valid.equivalent(valid.min(), 198_000), "{}", valid.min());
        assert!(valid.equivalent(valid.max(), 200_000), "{}", valid.max());
        assert_eq!(load.of(End::NotSent).len(), 57);
    }
}
