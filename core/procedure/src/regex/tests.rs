//! Answers are PostgreSQL 15's.

use super::*;

fn found(pattern: &str, text: &str) -> Option<Vec<Option<String>>> {
    let meter = Meter::default();
    let pattern = compiled(pattern, Options::default(), &meter).unwrap();
    let found = pattern.find(text, 0, &meter).unwrap()?;
    let shown = |span: &Option<Span>| span.map(|span| text[span.start..span.end].to_owned());
    Some(found.iter().map(shown).collect())
}

fn whole(pattern: &str, text: &str) -> String {
    found(pattern, text).and_then(|found| found[0].clone()).unwrap_or_else(|| "none".to_owned())
}

#[test]
fn the_longest_match_is_meant_or_the_shortest_where_the_first_quantifier_says_so() {
    assert_eq!(whole("ab|abcd", "xabcdx"), "abcd");
    assert_eq!(whole("a?(ab)?", "ab"), "ab");
    assert_eq!(whole("a.*c", "abcabc"), "abcabc");
    assert_eq!(whole("a.*?c", "abcabc"), "abc");
    assert_eq!(whole("(.*?)([0-9]+)", "abc123"), "abc1");
    assert_eq!(whole("(ab|abab)c?", "xxababcx"), "ababc");
    assert_eq!(whole("z", "abc"), "none");
    let groups = |pattern, text| found(pattern, text).unwrap()[1..].to_vec();
    assert_eq!(groups("Y*([0-9]{1,3})", "XY1234Z"), [Some("123".to_owned())]);
    assert_eq!(groups("Y*?([0-9]{1,3})", "XY1234Z"), [Some("1".to_owned())]);
    assert_eq!(groups("(a)|(b)", "b"), [None, Some("b".to_owned())]);
}

#[test]
fn what_is_written_is_read_as_postgresql_reads_it() {
    let matches = |pattern: &str, text: &str| {
        let meter = Meter::default();
        compiled(pattern, Options::default(), &meter).unwrap().is_match(text, &meter).unwrap()
    };
    for (pattern, text, is_match) in [
        (r"\mhere\M", "word here", true),
        (r"[[:<:]]her[[:>:]]", "word here", false),
        (r"^[]a-]+$", "]-a", true),
        (r"[^]]", "]", false),
        (r"^\w+\s\d$", "wörd 1", true),
        ("[[:alpha:]][[:digit:]]", "a1", true),
        ("a{,2}", "a{,2}", true),
        ("^a{2,3}$", "aaaa", false),
        ("***=a.c", "abc", false),
        ("***:(?i)ABC", "xabcx", true),
        ("(?n)^b", "a\nb", true),
        ("^b", "a\nb", false),
        ("a.b", "a\nb", true),
        ("(?n)a.b", "a\nb", false),
        (r"\x41\u0042\t", "AB\t", true),
        ("(?x) a b # c\n c", "abc", true),
        ("a(?#no)b", "ab", true),
        ("", "", true),
        ("a||b", "", true),
        ("&&--[[~~]", "&&--[", true),
    ] {
        assert_eq!(matches(pattern, text), is_match, "{pattern} in {text}");
    }
}

#[test]
fn what_is_none_is_refused_in_postgresqls_words() {
    let refused = |pattern: &str| {
        let error = syntax::translate(pattern, Options::default()).unwrap_err();
        (error.code(), error.message().to_owned())
    };
    let invalid = |what: &str| (SqlState(*b"2201B"), format!("invalid regular expression: {what}"));
    assert_eq!(refused("("), invalid("parentheses () not balanced"));
    assert_eq!(refused("a)"), invalid("parentheses () not balanced"));
    assert_eq!(refused("[a"), invalid("brackets [] not balanced"));
    assert_eq!(refused("*a"), invalid("quantifier operand invalid"));
    assert_eq!(refused("a**"), invalid("quantifier operand invalid"));
    assert_eq!(refused("a{3,2}"), invalid("invalid repetition count(s)"));
    assert_eq!(refused("a{256}"), invalid("invalid repetition count(s)"));
    assert_eq!(refused(r"\q"), invalid("invalid escape \\ sequence"));
    assert_eq!(refused("[b-a]"), invalid("invalid character range"));
    assert_eq!(refused("[[:no:]]"), invalid("invalid character class"));
    assert_eq!(refused(r"\1"), invalid("invalid backreference number"));
    assert_eq!(refused(r"(a)\1").0, SqlState::FEATURE_NOT_SUPPORTED);
    assert_eq!(refused("a(?=b)").0, SqlState::FEATURE_NOT_SUPPORTED);
    let deep = "((((((((a{200}){200}){200}){200}){200}){200}){200}){200})";
    assert_eq!(refused(deep), invalid("regular expression is too complex"));
    assert_eq!(refused(&"(".repeat(5000)), invalid("regular expression is too complex"));
}

/// A search is paid for by text and pattern, so that none holds a block up.
#[test]
fn searches_and_compilations_are_paid_for() {
    let pattern = "(a|b)*a(a|b){40}c";
    let text = "ab".repeat(50_000);
    let meter = Meter::new(1_000_000, None);
    let refused = compiled(pattern, Options::default(), &meter)
        .and_then(|compiled| compiled.is_match(&text, &meter));
    assert_eq!(refused.unwrap_err().code(), SqlState::STATEMENT_TOO_COMPLEX);
    // Of those that are kept none is compiled again.
    let meter = Meter::new(1_000_000, None);
    for _ in 0..2_000 {
        compiled(r"^\w+$", Options::default(), &meter).unwrap();
    }
}

/// Another version of Unicode's tables is another executor.
#[test]
fn classes_have_the_characters_that_they_had() {
    let meter = Meter::new(u64::MAX / 2, None);
    let count = |class: &str| {
        let class = compiled(class, Options::default(), &meter).unwrap();
        let all = ('\0'..'\u{11000}')
            .filter(|c| class.is_match(c.encode_utf8(&mut [0; 4]), &meter).unwrap());
        all.count()
    };
    let counts = [r"\w", "[[:alpha:]]", "[[:upper:]]", "[[:lower:]]", r"\s", r"\d"].map(count);
    assert_eq!(counts, [52633, 52232, 1358, 1881, 25, 10]);
}

/// Each has made gigabytes, or run for minutes, of few characters of SQL.
#[test]
fn what_would_take_too_much_is_too_complex() {
    let refused = |pattern: &str, any_case: bool| {
        let options = Options { any_case, ..Options::default() };
        syntax::translate(pattern, options).map(drop).unwrap_err().message().to_owned()
    };
    let too_complex = "invalid regular expression: regular expression is too complex";
    for pattern in [
        "a".repeat(20_000),
        "|".repeat(10_000),
        "()".repeat(101),
        r"\y|".repeat(3_000),
        "(a{0,255}){0,255}".to_owned(),
    ] {
        assert_eq!(refused(&pattern, false), too_complex, "{}", &pattern[..10]);
    }
    assert_eq!(refused(&"[[:graph:]]".repeat(2), true), too_complex);
    assert_eq!(refused(&"[!-\u{10ffff}]".repeat(2), true), too_complex);
    assert!(syntax::translate(&"[[:graph:]]".repeat(100), Options::default()).is_ok());
    assert!(syntax::translate("[[:alpha:]]{2,5}|[a-z]+", Options::default()).is_ok());
}

/// What is compiled counts as long as it is kept, whatever a query releases; of nine patterns eight
/// are kept.
#[test]
fn compiled_patterns_are_held_memory() {
    let budget = |bytes_max| Meter::of(crate::Budget { bytes_max, ..crate::Budget::default() });
    let compile = |pattern: &str, meter: &Meter| compiled(pattern, Options::default(), meter);
    let large = |n: usize| format!(r"\w{{{n}}}");
    let meter = budget(64 << 20);
    let before = meter.memory_left();
    compile(&large(50), &meter).unwrap();
    let of_one = meter.held();
    assert!(of_one > 1 << 20, "{of_one}");
    meter.release_to(before);
    assert_eq!(meter.held(), of_one);
    compile(&large(50), &meter).unwrap();
    assert_eq!(meter.held(), of_one, "compiled once");
    for n in 0..KEPT_MAX {
        compile(&format!("a{n}"), &meter).unwrap();
    }
    assert!(meter.held() < of_one, "the first one was let go");
    meter.refill();
    assert_eq!(meter.held(), 0);
    let meter = budget(of_one - 1);
    let error = compile(&large(50), &meter).err().unwrap();
    assert_eq!(error.code(), SqlState::PROGRAM_LIMIT_EXCEEDED);
    assert_eq!(meter.held(), 0);
    // One that is never looked for again is compiled once.
    let held = |pattern: &str| {
        let meter = budget(64 << 20);
        compile(pattern, &meter).unwrap();
        meter.held()
    };
    let of_two_more = 2 * (COMPILED_BYTES + STATE_BYTES * 3000);
    assert!(held(r"\w{10}|x") > held(r"\w{10}") + of_two_more);
    // A row that would have fitted beside nothing.
    let meter = budget(of_one + 1000);
    compile(&large(50), &meter).unwrap();
    let error = meter.hold(1001).err().unwrap();
    assert_eq!(error.code(), SqlState::PROGRAM_LIMIT_EXCEEDED);
    meter.hold(1000).unwrap();
}
