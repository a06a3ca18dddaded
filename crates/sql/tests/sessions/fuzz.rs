//! Statements from a grammar with arguments that are far too large, while another session asks for
//! one row: whatever the statement, that one is answered at once.
//!
//! Not run by default. A find becomes a line in `bounds`.
//!
//! ```text
//! TALLY_FUZZ_SEED=7 TALLY_FUZZ_SECONDS=120 cargo test -p sql --test it fuzz -- --ignored
//! ```

use std::time::{Duration, Instant};

use ::types::SqlState;

use super::{Node, block_on};

/// How long the other session may wait, on a loaded machine.
const WAIT_MAX: Duration = Duration::from_secs(3);

/// How long one statement may take: one block's work, in a debug build.
const STATEMENT_MAX: Duration = Duration::from_secs(60);

/// xorshift64*
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % bound
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }

    fn number(&mut self) -> String {
        let numbers = ["0", "1", "-1", "7", "1000", "100000", "20000000", "67108864", "2147483647"];
        self.of(&numbers).to_owned()
    }

    fn text(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.of(&["'a'", "'%'", "'_%'", "v", "''", "'ä'", "'aab'"]).to_owned();
        }
        let (a, n) = (self.text(depth - 1), self.number());
        match self.below(16) {
            0..=3 => format!("repeat({a}, {n})"),
            4 => format!("({a} || {})", self.text(depth - 1)),
            5 => format!("translate({a}, {}, {})", self.text(depth - 1), self.text(0)),
            6 => format!("replace({a}, {}, {})", self.text(0), self.text(depth - 1)),
            7 => format!("trim(both {} from {a})", self.text(depth - 1)),
            8 => format!("lpad({a}, {n}, {})", self.text(0)),
            9 => format!("{}({a})", self.of(&["upper", "reverse", "initcap", "md5", "lower"])),
            10 => format!("split_part({a}, {}, {n})", self.text(0)),
            11 => format!("substring({a} from {n})"),
            12 => format!("CASE WHEN {} THEN {a} ELSE v END", self.condition(depth - 1)),
            13 => format!("coalesce(nullif({a}, v), v)"),
            14 => format!("encode(decode({a}, 'hex'), 'base64')"),
            _ => format!("(SELECT max({a}) FROM generate_series(1, {n}) n)"),
        }
    }

    fn condition(&mut self, depth: usize) -> String {
        let (a, b) = (self.text(depth), self.text(depth));
        match self.below(6) {
            0 => format!("{a} LIKE {b}"),
            1 => format!("{a} ILIKE {b}"),
            2 => format!("{a} = ANY(ARRAY[{b}, v])"),
            3 => format!("{a} BETWEEN {b} AND v"),
            4 => format!("position({b} in {a}) > 0"),
            _ => format!("{a} < {b}"),
        }
    }

    fn statement(&mut self) -> String {
        let depth = 1 + self.below(4);
        let (text, condition) = (self.text(depth), self.condition(depth));
        let nested = self.of(&["abs(", "NOT (", "(", "CASE WHEN true THEN (", "ARRAY[", "-", "f("]);
        match self.below(9) {
            0 | 1 => format!("UPDATE t SET v = left({text}, 5) WHERE id < 50"),
            2 => format!("UPDATE t SET v = 'v' WHERE {condition}"),
            3 => format!("SELECT {text} FROM t"),
            4 => format!("SELECT id FROM t WHERE {condition} ORDER BY {text}"),
            5 => format!("SELECT {text}, count(*) FROM t a, t b GROUP BY {text}"),
            6 => format!("SELECT array_agg({text}) FROM t a, t b"),
            7 => format!("INSERT INTO t SELECT n, {text} FROM generate_series(1, 5) n, t"),
            _ => format!("SELECT {}1", nested.repeat(1 + self.below(300))),
        }
        .replace("(v)", "('v')")
    }
}

fn given(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
#[ignore = "takes as long as it is given"]
fn no_statement_holds_up_another_session() {
    let mut chance = Chance(given("TALLY_FUZZ_SEED", 1) | 1 << 40);
    let until = Instant::now() + Duration::from_secs(given("TALLY_FUZZ_SECONDS", 60));
    block_on(async {
        let node = Node::new("serial");
        let mut client = node.session();
        client.run("CREATE TABLE t (id int PRIMARY KEY, v text)").await.unwrap();
        client.run("INSERT INTO t SELECT n, 'v' FROM generate_series(1, 100) n").await.unwrap();
        client.run("SET statement_timeout = 1000").await.unwrap();
        let mut other = node.session();
        let watched = tokio::spawn(async move {
            let mut longest = Duration::ZERO;
            while Instant::now() < until {
                let started = Instant::now();
                other.run("SELECT v FROM t WHERE id = 1").await.unwrap();
                longest = longest.max(started.elapsed());
                let pause = || std::thread::sleep(Duration::from_millis(5));
                tokio::task::spawn_blocking(pause).await.unwrap();
            }
            longest
        });
        let mut statements = 0;
        while Instant::now() < until {
            let statement = chance.statement();
            let started = Instant::now();
            let outcome = client.run(&statement).await;
            let took = started.elapsed();
            assert!(took < STATEMENT_MAX, "{took:?}: {statement}");
            if let Err(error) = outcome {
                assert_ne!(error.code(), SqlState::INTERNAL_ERROR, "{error}: {statement}");
            }
            if took > Duration::from_secs(2) {
                println!("{took:?}: {}", statement.chars().take(300).collect::<String>());
            }
            statements += 1;
        }
        let longest = watched.await.unwrap();
        println!("{statements} statements; the other session waited {longest:?} at most");
        assert!(longest < WAIT_MAX, "{longest:?}");
        node.verify();
    });
}
