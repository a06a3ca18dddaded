//! Statements from a grammar. What they find does not matter; that they end, and leave the node
//! and its other sessions as they were, does.

use std::cell::RefCell;
use std::time::Instant;

use kit::random::Random;

use super::session::{Found, Kind, STATEMENT_TIMEOUT_MS, Wire, of};

thread_local! {
    /// One connection for many statements, until it fails.
    static SESSION: RefCell<Option<Wire>> = const { RefCell::new(None) };
}

/// `tell` is told each statement before it is sent.
pub fn turn(
    address: &str,
    kind: Kind,
    random: &mut Random,
    (until, tell): (Instant, &mut dyn FnMut(&str)),
) -> Found {
    let statement = match kind {
        Kind::Values => Grammar(random).of_values(),
        _ => Grammar(random).statement(),
    };
    let statement = match random.chance(4) {
        true => with_signs(&statement, random),
        false => statement.into_bytes(),
    };
    let answered = SESSION.with_borrow_mut(|session| {
        let wire = match session {
            Some(wire) => wire,
            None => session.insert(begin(address).expect("the node lets sessions in")),
        };
        tell(&String::from_utf8_lossy(&statement));
        let answered = wire.query_bytes(&statement);
        if answered.as_ref().map_or(true, |answer| answer.is_last) {
            *session = None;
        }
        answered
    });
    let shown: String = String::from_utf8_lossy(&statement).chars().take(300).collect();
    match answered {
        Err(_) if Instant::now() >= until => Found::default(),
        Err(error) => Found { errors: 1, fault: Some(format!("no answer ({error}): {shown}")) },
        Ok(answer) => match answer.error {
            None => Found::default(),
            Some((code, message)) => {
                // A block that failed would refuse all that follows.
                SESSION.with_borrow_mut(|wire| wire.as_mut().map(|wire| wire.query("ROLLBACK")));
                let fault = (code == "XX000").then(|| format!("{code} {message}: {shown}"));
                Found { errors: 1, fault }
            }
        },
    }
}

fn begin(address: &str) -> std::io::Result<Wire> {
    let mut wire = Wire::connect(address)?;
    wire.query(&format!("SET statement_timeout = {STATEMENT_TIMEOUT_MS}"))?;
    Ok(wire)
}

/// What a statement may have anywhere that is neither letter nor digit, or not even a character.
/// Those that are no UTF-8 are refused before anything reads them, which is to be tried as well.
const SIGNS: [&[u8]; 16] = [
    b"\xc2\xa0",
    b"\xc2\xad",
    b"\xc2\xb7",
    b"\xe2\x80\x83",
    b"\xe2\x80\xa8",
    b"\xe2\x80\x8b",
    b"\xef\xbb\xbf",
    b"\xef\xbf\xbd",
    b"\xf0\x9f\xa6\x80",
    b"\xcc\x81",
    b"\xa0",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xf8\x88\x80\x80\x80",
    b"\xff",
    b"\x0b",
];

/// A statement with a sign or two put into it, at any place between two characters.
fn with_signs(statement: &str, random: &mut Random) -> Vec<u8> {
    let mut bytes = statement.as_bytes().to_vec();
    for _ in 0..1 + random.below(2) {
        let sign = SIGNS[random.below(SIGNS.len() as u64) as usize];
        // The ends are where a scanner that stands still is met most.
        let at = match random.below(4) {
            0 => bytes.len(),
            _ => random.below(bytes.len() as u64 + 1) as usize,
        };
        bytes.splice(at..at, sign.iter().copied());
    }
    bytes
}

struct Grammar<'r>(&'r mut Random);

/// Short ones are read by scanners of their own before they are parsed.
const SHORT: [&str; 8] = [
    "SELECT 1",
    "SELECT v FROM fuzzed WHERE id = 7",
    "UPDATE fuzzed SET v = 'v' WHERE id = 7",
    "DELETE FROM fuzzed WHERE id = -1",
    "INSERT INTO fuzzed VALUES (-1, 'v') ON CONFLICT DO NOTHING",
    "VALUES (1, generate_series(1, 2))",
    "SELECT 1 LIMIT generate_series(1, 3)",
    "TABLE fuzzed",
];

const NUMBERS: [&str; 9] =
    ["0", "1", "-1", "7", "1000", "100000", "20000000", "67108864", "2147483647"];

/// `A`, `B`: texts; `N`: a number; `Y`: bytes; `R`: an array of texts.
const FUNCTIONS: [&str; 44] = [
    "length(translate(A, B, A))",
    "length(trim(both B from A))",
    "length(ltrim(A, B))",
    "length(rtrim(A, B))",
    "length(replace(A, B, A))",
    "length(repeat(A, N))",
    "length(reverse(A))",
    "length(upper(A))",
    "length(lower(A))",
    "length(initcap(A))",
    "length(lpad(A, N, B))",
    "length(rpad(A, N, B))",
    "length(left(A, N))",
    "length(right(A, N))",
    "length(substring(A from N))",
    "length(substring(A from N for N))",
    "length(split_part(A, B, N))",
    "position(B in A)",
    "starts_with(A, B)",
    "A LIKE B",
    "A ILIKE B",
    "A LIKE ('%' || B || '%')",
    "A ~ B",
    "length(regexp_replace(A, B, A))",
    "length(concat(A, B, N))",
    "length(concat_ws(A, B, B, B))",
    "length(A || B || A)",
    "A = B",
    "A < B",
    "md5(A)",
    "length(encode(Y, 'hex'))",
    "length(encode(Y, 'base64'))",
    "length(decode(A, 'hex'))",
    "length(sha256(Y))",
    "length(A::bytea::text)",
    "A::numeric",
    "A::timestamp",
    "A::int[]",
    "cardinality(('{' || repeat('1,', N) || '1}')::int[])",
    "cardinality(R || R)",
    "cardinality(array_cat(R, R))",
    "array_position(R, A)",
    "A = ANY(R)",
    "cardinality(array_append(R, A))",
];

impl Grammar<'_> {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    fn of_values(&mut self) -> String {
        let template = of(self.0, &FUNCTIONS);
        let mut call = String::new();
        let mut before = ' ';
        let mut letters = template.chars().peekable();
        while let Some(letter) = letters.next() {
            let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '\'';
            let is_alone = !word(before) && !letters.peek().copied().is_some_and(word);
            match letter {
                'A' | 'B' if is_alone => call.push_str(&self.large()),
                'N' if is_alone => call.push_str(of(self.0, &NUMBERS)),
                'Y' if is_alone => call.push_str(&format!("{}::bytea", self.large())),
                'R' if is_alone => {
                    call.push_str(&format!("ARRAY[{}, v, {}]", self.large(), self.large()));
                }
                other => call.push(other),
            }
            before = letter;
        }
        match self.below(5) {
            0 => format!("SELECT ({call})::text FROM fuzzed"),
            1 => format!("SELECT count(*) FROM fuzzed WHERE ({call})::text < v"),
            2 => format!("SELECT ({call})::text FROM pg_class"),
            3 => format!("SELECT max(({call})::text) FROM fuzzed a, fuzzed b"),
            _ => format!("SELECT ({call})::text"),
        }
    }

    fn large(&mut self) -> String {
        let piece = of(self.0, &["a", "ab", "é", "%", "_%", "1,", "0", "🦀", "(a*)*", "\\\\"]);
        let times = of(self.0, &["1", "1000", "300000", "5000000", "30000000"]);
        match self.below(4) {
            0 => "v".to_owned(),
            1 => format!("('{piece}' || v)"),
            _ => format!("repeat('{piece}', {times} + length(v))"),
        }
    }

    fn text(&mut self, depth: usize) -> String {
        if depth == 0 {
            return of(self.0, &["'a'", "'%'", "'_%'", "v", "''", "'ä'", "'aab'"]).to_owned();
        }
        let (a, n) = (self.text(depth - 1), of(self.0, &NUMBERS));
        match self.below(14) {
            0..=3 => format!("repeat({a}, {n})"),
            4 => format!("({a} || {})", self.text(depth - 1)),
            5 => format!("translate({a}, {}, {})", self.text(depth - 1), self.text(0)),
            6 => format!("replace({a}, {}, {})", self.text(0), self.text(depth - 1)),
            7 => format!("trim(both {} from {a})", self.text(depth - 1)),
            8 => format!("lpad({a}, {n}, {})", self.text(0)),
            9 => format!("{}({a})", of(self.0, &["upper", "reverse", "initcap", "md5", "lower"])),
            10 => format!("split_part({a}, {}, {n})", self.text(0)),
            11 => format!("CASE WHEN {} THEN {a} ELSE v END", self.condition(depth - 1)),
            12 => format!("coalesce(nullif({a}, v), v)"),
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
        let depth = 1 + self.below(4) as usize;
        let (text, condition) = (self.text(depth), self.condition(depth));
        let nested = ["abs(", "NOT (", "(", "CASE WHEN true THEN (", "ARRAY[", "-", "f("];
        let nested = of(self.0, &nested);
        let many = 1 + self.below(200_000) as usize;
        match self.below(20) {
            0 => format!("UPDATE fuzzed SET v = left({text}, 5) WHERE id < 50"),
            1 => format!("UPDATE fuzzed SET v = 'v' WHERE {condition}"),
            2 => format!("SELECT {text} FROM fuzzed"),
            3 => format!("SELECT id FROM fuzzed WHERE {condition} ORDER BY {text}"),
            4 => format!("SELECT {text}, count(*) FROM fuzzed GROUP BY {text}"),
            5 => "SELECT array_agg(a.v) FROM fuzzed a, fuzzed b, fuzzed c".to_owned(),
            6 => format!("SELECT {}1", nested.repeat(1 + self.below(300) as usize)),
            7 => format!("SELECT 1 IN (1{})", ", 1".repeat(many)),
            8 => format!("SELECT {}1", "1 + ".repeat(many % 5000)),
            9 => "SELECT a.id FROM fuzzed a, fuzzed b, fuzzed c, fuzzed d ORDER BY a.id + d.id"
                .into(),
            10 => "SELECT count(*) FROM pg_type a, pg_type b, pg_type c, pg_type d".to_owned(),
            11 => "SELECT a.typname || b.typname FROM pg_type a, pg_type b, pg_type c ORDER BY 1"
                .into(),
            12 => format!("SELECT repeat('x', {}) FROM fuzzed WHERE id < 4", 100 * many),
            13 => format!("SELECT n, repeat('x', 99) FROM generate_series(1, {many}) n"),
            14 => format!(
                "BEGIN; INSERT INTO fuzzed SELECT 999 + n, 'v' FROM generate_series(1, {many}) n; \
                 ROLLBACK"
            ),
            15 => format!("BEGIN; UPDATE fuzzed SET v = 'v'; SELECT {text} FROM fuzzed; ROLLBACK"),
            16 => format!("PREPARE p{} AS SELECT {text} FROM fuzzed", self.below(1000)),
            17 => doubled(1 + self.below(60) as usize),
            18 => {
                let (open, close) = [
                    ("array[", "]"),
                    ("row(1, ", ")"),
                    ("(1, ", ")"),
                    ("quote_literal(", ")"),
                    ("format('%L', ", ")"),
                    ("nullif(1, ", ")"),
                    ("1 IN (1, ", ")"),
                ][self.below(7) as usize];
                let levels = 1 + self.below(90) as usize;
                let from = of(self.0, &["", " FROM fuzzed", " FROM pg_class"]);
                format!("SELECT {}1{}{from}", open.repeat(levels), close.repeat(levels))
            }
            _ => of(self.0, &SHORT).to_owned(),
        }
    }
}

/// Common table expressions of which each has twice the rows of the one before.
fn doubled(levels: usize) -> String {
    let each =
        |n: usize| format!(", a{n} AS (SELECT x FROM a{0} UNION ALL SELECT x FROM a{0})", n - 1);
    let parts: String = (1..=levels).map(each).collect();
    format!("WITH a0 AS (SELECT 1 AS x){parts} SELECT count(*) FROM a{levels}")
}
