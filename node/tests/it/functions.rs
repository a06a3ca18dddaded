//! Functions, each called: the page `docs/functions.md` has the call and what it answers, and the
//! functions that queries over rows and over columns share all occur on it.

use std::fmt::Write as _;
use std::fs;

use tokio_postgres::{Client, SimpleQueryMessage};

use super::*;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/functions.md");

/// Where the list of shared functions is.
const SHARED: &str = include_str!("../../../sql/sql/src/bind/calls.rs");

/// Of single values, by what they are for.
const AREAS: &[(&str, &[&str])] = &[
    (
        "Numbers",
        &[
            "abs(-7)",
            "ceil(1.2)",
            "ceiling(1.2)",
            "div(7, 2)",
            "exp(1.0)",
            "floor(-1.2)",
            "gcd(12, 18)",
            "greatest(1, 3, 2)",
            "lcm(4, 6)",
            "least(1, 3, 2)",
            "ln(2.0)",
            "log(100.0)",
            "log10(100.0)",
            "mod(7, 3)",
            "pi()",
            "pow(2, 10)",
            "power(2, 10)",
            "round(2.567, 2)",
            "sign(-3)",
            "sqrt(2.0)",
            "trunc(2.567, 1)",
            "to_hex(255)",
        ],
    ),
    (
        "Texts",
        &[
            "ascii('a')",
            "bit_length('abc')",
            "btrim('xaxx', 'x')",
            "char_length('häuser')",
            "character_length('häuser')",
            "chr(65)",
            "concat('a', 1, NULL)",
            "concat_ws('-', 'a', NULL, 'b')",
            "format('%s has %I', 'ada', 'a b')",
            "initcap('ada lovelace')",
            "left('abcde', 2)",
            "length('häuser')",
            "lower('ADA')",
            "lpad('7', 3, '0')",
            "ltrim('  a')",
            "octet_length('häuser')",
            "overlay('abcdef' PLACING 'X' FROM 2 FOR 3)",
            "position('c' IN 'abcd')",
            "quote_ident('a b')",
            "repeat('ab', 3)",
            "replace('abcabc', 'b', 'X')",
            "reverse('abc')",
            "right('abcde', 2)",
            "rpad('7', 3, '.')",
            "rtrim('a  ')",
            "split_part('a,b,c', ',', 2)",
            "starts_with('tally', 'ta')",
            "strpos('abcd', 'c')",
            "substr('abcdef', 3, 2)",
            "substring('abcdef' FROM 3 FOR 2)",
            "translate('abc', 'ab', 'xy')",
            "trim('  a  ')",
            "upper('ada')",
        ],
    ),
    (
        "Regular expressions",
        &[
            "regexp_count('a1b22', '[0-9]+')",
            "regexp_instr('a1b22', '[0-9]+', 1, 2)",
            "regexp_like('tally', '^ta')",
            "regexp_match('a1b22', '([a-z])([0-9])')",
            "regexp_replace('a1b22', '[0-9]+', '#', 'g')",
            r#"regexp_split_to_array('a, b,c', ',\s*')"#,
            "regexp_substr('a1b22', '[0-9]+', 1, 2)",
        ],
    ),
    (
        "Bytes and digests",
        &[
            r#"encode('\x0102', 'hex')"#,
            "decode('AQI=', 'base64')",
            r#"get_byte('\x0102', 1)"#,
            r#"set_byte('\x0102', 0, 255)"#,
            "md5('a')",
            "sha224('a')",
            "sha256('a')",
            "sha384('a')",
            "sha512('a')",
            "digest('a', 'sha1')",
            "hmac('a', 'key', 'sha256')",
        ],
    ),
    (
        "Dates and times",
        &[
            "age(TIMESTAMP '2026-03-01', TIMESTAMP '2025-01-15')",
            "date_bin('15 minutes', TIMESTAMP '2026-03-01 12:34', TIMESTAMP '2026-01-01')",
            "date_part('month', DATE '2026-03-01')",
            "date_trunc('month', TIMESTAMP '2026-03-17 12:00')",
            "extract(year FROM DATE '2026-03-01')",
            "isfinite(DATE '2026-03-01')",
            "justify_days('40 days')",
            "justify_hours('30 hours')",
            "justify_interval('1 mon -1 hour')",
            "make_date(2026, 3, 1)",
            "make_interval(days => 3)",
            "make_time(12, 30, 0)",
            "make_timestamp(2026, 3, 1, 12, 30, 0)",
            "to_char(DATE '2026-03-01', 'DD Mon YYYY')",
            "to_timestamp(0)",
            "timezone('Europe/Stockholm', TIMESTAMP '2026-03-01 12:00')",
            "now() = transaction_timestamp()",
        ],
    ),
    (
        "Arrays",
        &[
            "array_append(ARRAY[1, 2], 3)",
            "array_cat(ARRAY[1], ARRAY[2])",
            "array_length(ARRAY[1, 2], 1)",
            "array_lower(ARRAY[1, 2], 1)",
            "array_ndims(ARRAY[1, 2])",
            "array_position(ARRAY['a', 'b'], 'b')",
            "array_positions(ARRAY[1, 2, 1], 1)",
            "array_prepend(0, ARRAY[1])",
            "array_remove(ARRAY[1, 2, 1], 1)",
            "array_replace(ARRAY[1, 2], 2, 3)",
            "array_to_string(ARRAY[1, NULL, 3], ',', '*')",
            "array_upper(ARRAY[1, 2], 1)",
            "cardinality(ARRAY[1, 2])",
            "string_to_array('a,b', ',')",
        ],
    ),
    (
        "JSON",
        &[
            "json_build_array(1, 'a')",
            "json_build_object('a', 1)",
            "jsonb_array_length('[1, 2]')",
            "jsonb_build_array(1, 'a')",
            "jsonb_build_object('a', 1)",
            r#"jsonb_extract_path('{"a": {"b": 1}}', 'a', 'b')"#,
            r#"jsonb_extract_path_text('{"a": {"b": 1}}', 'a', 'b')"#,
            "jsonb_insert('[1, 2]', '{1}', '9')",
            "jsonb_pretty('[1]')",
            r#"jsonb_set('{"a": 1}', '{a}', '2')"#,
            r#"jsonb_strip_nulls('{"a": null}')"#,
            "jsonb_typeof('[1]')",
            "row_to_json(ROW(1, 'a'))",
            "to_json('a'::text)",
            "to_jsonb(1)",
            "array_to_json(ARRAY[1, 2])",
        ],
    ),
    (
        "Networks",
        &["family(inet '10.0.0.1')", "host(inet '10.0.0.1/8')", "masklen(inet '10.0.0.1/8')"],
    ),
    (
        "Values and conditions",
        &[
            "coalesce(NULL, 2)",
            "nullif(1, 1)",
            "pg_typeof(1)",
            "cast('7' AS int)",
            "CASE WHEN 1 < 2 THEN 'a' ELSE 'b' END",
        ],
    ),
];

/// Over the values 1, 2 and 4.
const AGGREGATES: &[&str] = &[
    "array_agg(v ORDER BY v)",
    "avg(v)",
    "bit_and(v)",
    "bit_or(v)",
    "bit_xor(v)",
    "bool_and(v > 0)",
    "bool_or(v > 3)",
    "count(*)",
    "every(v > 0)",
    "json_agg(v)",
    "jsonb_agg(v)",
    "json_object_agg(v, v)",
    "jsonb_object_agg(v, v)",
    "max(v)",
    "min(v)",
    "stddev(v)",
    "stddev_pop(v)",
    "stddev_samp(v)",
    "string_agg(v::text, ',' ORDER BY v)",
    "sum(v)",
    "var_pop(v)",
    "var_samp(v)",
    "variance(v)",
];

/// `OVER (ORDER BY v)` the same values.
const WINDOW: &[&str] = &[
    "cume_dist()",
    "dense_rank()",
    "first_value(v)",
    "lag(v)",
    "last_value(v)",
    "lead(v)",
    "nth_value(v, 2)",
    "ntile(2)",
    "percent_rank()",
    "rank()",
    "row_number()",
];

/// In FROM.
const ROWS: &[&str] = &[
    "generate_series(1, 3)",
    "generate_subscripts(ARRAY['a', 'b'], 1)",
    "unnest(ARRAY['a', 'b'])",
    "jsonb_array_elements('[1, 2]')",
    "jsonb_array_elements_text('[1, 2]')",
    r#"jsonb_each('{"a": 1}')"#,
    r#"jsonb_each_text('{"a": 1}')"#,
    r#"jsonb_object_keys('{"a": 1}')"#,
    "regexp_matches('a1b22', '[0-9]', 'g')",
    "regexp_split_to_table('a,b', ',')",
    "string_to_table('a,b', ',')",
];

/// Those of the ledger itself, with the page that says more.
const OWN: &[(&str, &str)] = &[
    (
        "tally_last_commit()",
        "the block and the place of what this session committed last: [transactions.md](transactions.md)",
    ),
    (
        "tally_outcome(key)",
        "what became of the transaction with this key: [transactions.md](transactions.md#at-most-once)",
    ),
    ("tally_snapshot()", "the newest block, its hash and time: [time-travel.md](time-travel.md)"),
    ("tally_history(table, key, …)", "a row's versions: [time-travel.md](time-travel.md)"),
    ("tally_pin(name [, block])", "keeps a block readable: [time-travel.md](time-travel.md)"),
    ("tally_unpin(name)", "no longer"),
    ("tally_pins()", "the blocks that are kept by name"),
    ("tally_skips()", "blocks that are not run: [operations.md](operations.md)"),
    ("tally_row_proof(table, key, …)", "that a row is so: [proofs.md](proofs.md)"),
    ("tally_absence_proof(table, key, …)", "that there is no such row"),
    ("tally_prefix_proof(table, key, …)", "all rows whose keys begin so"),
    ("tally_range_proof(table, …)", "all rows between two keys"),
    ("tally_receipt(block, index)", "a transaction and its outcome"),
    ("tally_head_proof(block)", "that a block's head is in the ledger"),
    ("tally_consistency_proof(old, new)", "that the ledger of now continues the one of then"),
    ("tally_signed_head()", "the newest head, signed"),
    ("tally_verifier_key()", "the key that a verifier trusts"),
    (
        "tally_submit_signed(envelope)",
        "a transaction that its client has signed: [organisations.md](organisations.md)",
    ),
    ("tally_approve(envelope)", "an approval by this node's organisation"),
    ("tally_propose(envelope)", "what this node's simulation comes to"),
];

const INTRODUCTION: &str = "\
# Functions

<!-- Made by node's test functions::the_page_has_what_each_function_answers. -->

Which functions are there, and what do they answer? Each line below was run, and names and answers are PostgreSQL's. What is not here is
refused by its name (0A000). Conditions, operators and casts are PostgreSQL's as well; what sessions ask about themselves
(`current_user`, `version()`, `current_setting()` and their like) and what tools ask of the catalog is not listed.
";

async fn answer(client: &Client, query: &str) -> Vec<String> {
    let messages = client.simple_query(query).await;
    let messages = messages.unwrap_or_else(|error| panic!("{query}: {error:?}"));
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => {
            let values = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL"));
            Some(values.collect::<Vec<_>>().join(" "))
        }
        _ => None,
    });
    rows.collect()
}

async fn area(page: &mut String, client: &Client, title: &str, calls: &[&str], query: [&str; 2]) {
    write!(page, "\n## {title}\n\n| | |\n|---|---|\n").unwrap();
    for call in calls {
        let rows = answer(client, &format!("{}{call}{}", query[0], query[1])).await.join(", ");
        let [call, rows] = [*call, &rows].map(|it| it.replace('|', "\\|").replace('\n', " "));
        let rows = if rows.trim().is_empty() { String::new() } else { format!("`{rows}`") };
        writeln!(page, "| `{call}` | {rows} |").unwrap();
    }
}

#[tokio::test]
async fn the_page_has_what_each_function_answers() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path());
    let client = node.connect().await;
    let mut page = INTRODUCTION.to_owned();
    for (title, calls) in AREAS {
        area(&mut page, &client, title, calls, ["SELECT ", ""]).await;
    }
    let values = "FROM (VALUES (1), (2), (4)) t(v)";
    let title = "Over several rows, `(VALUES (1), (2), (4)) t(v)`";
    area(&mut page, &client, title, AGGREGATES, ["SELECT ", &format!(" {values}")]).await;
    let over = format!(" OVER (ORDER BY v) {values}");
    let title = "Over the rows around, `OVER (ORDER BY v)` of the same";
    area(&mut page, &client, title, WINDOW, ["SELECT ", &over]).await;
    area(&mut page, &client, "Rows, in `FROM`", ROWS, ["SELECT * FROM ", ""]).await;
    page += "\n## The ledger's own\n\n| | |\n|---|---|\n";
    for (call, about) in OWN {
        writeln!(page, "| `{call}` | {about} |").unwrap();
    }
    let (_, shared) = SHARED.split_once("SHARED_FUNCTIONS: &[&str] = &[").unwrap();
    let shared = shared.split_once("];").unwrap().0.split('"').skip(1).step_by(2);
    for function in shared {
        assert!(page.contains(&format!("| `{function}(")), "{function} is not on the page");
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        return fs::write(PAGE, page).unwrap();
    }
    assert_eq!(fs::read_to_string(PAGE).unwrap(), page, "UPDATE_GOLDEN=1 writes it anew");
}
