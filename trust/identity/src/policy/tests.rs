//! Against an evaluator that knows no canonical form, and what no policy may be.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::formula::{DEPTH_MAX, PARTIES_MAX, TEXT_BYTES_MAX};
use super::*;

/// A policy as it is written.
#[derive(Clone, Debug)]
enum Written {
    Party(usize),
    All(Vec<Written>),
    Any(Vec<Written>),
    Some(usize, Vec<Written>),
}

/// As texts name them, and as they are.
const NAMES: [(&str, &str); 6] = [
    ("bank_a", "bank_a"),
    ("Bank_B", "bank_b"),
    ("bank_a . Teller", "bank_a.teller"),
    ("\"Bank \"\"C\"\"\"", "\"Bank \"\"C\"\"\""),
    ("and", "and"),
    ("\"or\"", "or"),
];

fn party(place: usize) -> Party {
    let Node::Party(party) = parse::policy(NAMES[place].0).unwrap() else { panic!() };
    party
}

impl Written {
    fn text(&self) -> String {
        let list = |all: &[Written]| {
            let all: Vec<String> = all.iter().map(Written::text).collect();
            all.join(" ,\n")
        };
        match self {
            Written::Party(place) => NAMES[*place].0.to_owned(),
            Written::All(all) => format!("And({})", list(all)),
            Written::Any(all) => format!("OR ( {} )", list(all)),
            Written::Some(needed, all) => format!("outof(0{needed},{})", list(all)),
        }
    }

    /// By the meaning of the words alone; `fitting`: a bit for each party.
    fn is_met(&self, fitting: usize) -> bool {
        let count = |all: &[Written]| all.iter().filter(|one| one.is_met(fitting)).count();
        match self {
            Written::Party(place) => fitting >> place & 1 == 1,
            Written::All(all) => count(all) == all.len(),
            Written::Any(all) => count(all) > 0,
            Written::Some(needed, all) => count(all) >= *needed,
        }
    }

    /// The same with what stands in lists turned round.
    fn turned(&self) -> Written {
        let turn = |all: &[Written]| all.iter().rev().map(Written::turned).collect();
        match self {
            Written::Party(place) => Written::Party(*place),
            Written::All(all) => Written::All(turn(all)),
            Written::Any(all) => Written::Any(turn(all)),
            Written::Some(needed, all) => Written::Some(*needed, turn(all)),
        }
    }
}

fn written() -> impl Strategy<Value = Written> {
    let leaf = (0..NAMES.len()).prop_map(Written::Party);
    leaf.prop_recursive(4, 24, 4, |inner| {
        let list = || proptest::collection::vec(inner.clone(), 1..5);
        prop_oneof![
            list().prop_map(Written::All),
            list().prop_map(Written::Any),
            (list(), 1..5usize).prop_map(|(all, needed)| Written::Some(needed.min(all.len()), all)),
        ]
    })
}

fn fits(fitting: usize) -> impl FnMut(&Party) -> bool {
    let all: BTreeSet<Party> =
        (0..NAMES.len()).filter(|place| fitting >> place & 1 == 1).map(party).collect();
    move |party| all.contains(party)
}

const ALL: std::ops::Range<usize> = 0..1 << NAMES.len();

proptest! {
    #[test]
    fn a_policy_is_met_by_what_its_words_say(written in written()) {
        let policy = match Policy::parse(&written.text()) {
            Ok(policy) => policy,
            // It names one twice where some are enough, or needs more than there can be.
            Err(error) => {
                prop_assert!(["22023", "54000"].contains(&error.code().as_str()), "{}", error);
                return Ok(());
            }
        };
        for fitting in ALL {
            prop_assert_eq!(policy.is_met(&mut fits(fitting)), written.is_met(fitting));
            prop_assert_eq!(
                policy.missing(&mut fits(fitting)).is_none(),
                written.is_met(fitting)
            );
        }
        let text = policy.to_string();
        prop_assert_eq!(Policy::parse(&text), Ok(policy.clone()), "{}", text);
        prop_assert_eq!(Policy::parse(&written.turned().text()), Ok(policy));
    }

    /// What is missing is what makes it whole, and no more.
    #[test]
    fn what_is_missing_meets_it(written in written(), fitting in ALL) {
        let Ok(policy) = Policy::parse(&written.text()) else { return Ok(()) };
        let rest = missing::missing(&policy.0, &mut fits(fitting));
        for more in ALL {
            let met = policy.is_met(&mut fits(fitting | more));
            let Some(rest) = &rest else {
                prop_assert!(met);
                continue;
            };
            prop_assert_eq!(rest.is_met(&mut fits(more | fitting)), met);
            let mut named = BTreeSet::new();
            rest.each_party(&mut |party| _ = named.insert(party.clone()));
            prop_assert!(!named.iter().any(fits(fitting)), "what fits is not missing");
        }
    }

    #[test]
    fn no_text_does_harm(text in "[andorutofbAND0-9(),.\" \\PC]{0,80}") {
        if let Ok(policy) = Policy::parse(&text) {
            prop_assert_eq!(Policy::parse(&policy.to_string()), Ok(policy));
        }
    }
}

#[test]
fn a_policy_has_one_text() {
    for (text, canonical) in [
        (" bank_a ", "bank_a"),
        ("AND(bank_a)", "bank_a"),
        ("or(bank_b, Bank_A, bank_b)", "OR(bank_a, bank_b)"),
        ("AND(bank_b, AND(bank_a, AND(bank_c)))", "AND(bank_a, bank_b, bank_c)"),
        ("OUTOF(2, bank_a, bank_b)", "AND(bank_a, bank_b)"),
        ("OUTOF(1, bank_a, OR(bank_b, bank_c))", "OR(bank_a, bank_b, bank_c)"),
        (
            "outof(2, bank_c.\"Chief\", bank_b, and(bank_a, or(bank_b)))",
            "OUTOF(2, bank_b, bank_c.\"Chief\", AND(bank_a, bank_b))",
        ),
        ("AND(and, or, outof)", "AND(and, or, outof)"),
        ("\"and\"", "and"),
        ("\"a\"\"b\".\"1\"", "\"a\"\"b\".\"1\""),
        ("ärzte", "\"ärzte\""),
    ] {
        assert_eq!(Policy::parse(text).unwrap().to_string(), canonical, "{text}");
    }
}

#[test]
fn what_is_missing_is_said_in_words() {
    let said = |text: &str, fitting: &[&str]| {
        let mut fits = |party: &Party| fitting.contains(&party.to_string().as_str());
        Policy::parse(text).unwrap().missing(&mut fits).unwrap_or_default()
    };
    for (text, fitting, expected) in [
        ("AND(bank_a, bank_b)", &["bank_a"][..], "bank_b is missing"),
        ("AND(a, b, c)", &[], "a, b and c are missing"),
        ("AND(a, b, c)", &["b"], "a and c are missing"),
        ("OR(a, b)", &[], "one of (a, b) is missing"),
        ("OUTOF(2, a, b, c)", &[], "2 of (a, b, c) are missing"),
        ("OUTOF(2, a, b, c)", &["b"], "one of (a, c) is missing"),
        ("OUTOF(3, a, b, c, d)", &["b", "d"], "one of (a, c) is missing"),
        ("AND(a, OR(b.x, c))", &[], "a and one of (b.x, c) are missing"),
        ("OR(a, AND(b, c))", &["b"], "one of (a, c) is missing"),
        ("OR(a, AND(b, c))", &[], "one of (a, (b and c)) is missing"),
        ("OUTOF(2, a, b, c)", &["a", "c"], ""),
    ] {
        assert_eq!(said(text, fitting), expected, "{text} by {fitting:?}");
    }
}

#[test]
fn what_is_no_policy_is_refused() {
    let deep = |levels: usize| format!("{}a{}", "AND(".repeat(levels), ")".repeat(levels));
    let wide = |parties: usize| format!("OR({})", vec!["a"; parties].join(","));
    let many = |parties: usize| {
        let names: Vec<String> = (0..parties).map(|place| format!("o{place}")).collect();
        format!("AND({})", names.join(","))
    };
    let long = format!("\"{}\"", "x".repeat(TEXT_BYTES_MAX));
    for (text, code) in [
        ("", "42601"),
        ("AND()", "42601"),
        ("AND(a", "42601"),
        ("AND(a,)", "42601"),
        ("a b", "42601"),
        ("a.b.c", "42601"),
        ("a.", "42601"),
        ("NOT(a)", "42601"),
        ("\"and\"(a)", "42601"),
        ("OUTOF(a, b)", "42601"),
        ("OUTOF(1)", "42601"),
        ("OUTOF(-1, a)", "42601"),
        ("'a'", "42601"),
        ("1a", "42601"),
        ("a; DROP TABLE t", "42601"),
        ("\"a", "42601"),
        ("OUTOF(0, a)", "22023"),
        ("OUTOF(3, a, b)", "22023"),
        ("OUTOF(99999999999999999999999, a, b)", "22023"),
        ("OUTOF(2, a, A, b)", "22023"),
        ("OUTOF(2, OR(a, b), OR(b, a), c)", "22023"),
        ("\"\"", "42602"),
        (&"x".repeat(64), "42602"),
        ("\"a\0\"", "42602"),
        (&deep(DEPTH_MAX + 1), "54001"),
        (&wide(PARTIES_MAX + 1), "54000"),
        (&many(APPROVALS_MAX + 1), "54000"),
        (&long, "54000"),
        (&"(".repeat(TEXT_BYTES_MAX), "42601"),
    ] {
        let refused = Policy::parse(text).unwrap_err();
        assert_eq!(refused.code().as_str(), code, "{text}: {refused}");
    }
    for text in [deep(DEPTH_MAX), wide(PARTIES_MAX), many(APPROVALS_MAX)] {
        Policy::parse(&text).unwrap();
    }
    let refused = Policy::parse("AND(bank_a bank_b)").unwrap_err();
    assert_eq!(refused.fields().detail.as_deref(), Some("At its character 12 stands \"bank_b)\"."));
}
