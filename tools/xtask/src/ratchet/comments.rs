//! Words in comments.

use std::ops::Range;

/// Pronouns of persons. A component does things, and has a name.
const PRONOUNS: &[&str] = &[
    "anybody",
    "anyone",
    "everybody",
    "everyone",
    "he",
    "her",
    "hers",
    "herself",
    "him",
    "himself",
    "his",
    "nobody",
    "she",
    "somebody",
    "someone",
    "whoever",
    "whomever",
];

/// A pronoun, and the line where it stands.
#[derive(Debug)]
pub struct Found {
    pub line: usize,
    pub word: String,
}

/// The pronouns in comments of a source text, whose code is in these ranges.
pub fn pronouns(text: &str, code: &[Range<usize>]) -> Vec<Found> {
    let mut found = Vec::new();
    let (mut start, mut line) = (0, 1);
    for range in code.iter().cloned().chain([text.len()..text.len()]) {
        let between = &text[start..range.start];
        in_prose(between, line, &mut found);
        start = range.end;
        line += lines_in(between) + lines_in(&text[range]);
    }
    found
}

fn lines_in(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// The pronouns of a page.
pub fn pronouns_of_page(text: &str) -> Vec<Found> {
    let mut found = Vec::new();
    in_prose(text, 1, &mut found);
    found
}

fn in_prose(text: &str, first_line: usize, found: &mut Vec<Found>) {
    // Most of what lies between two tokens is a space or nothing.
    if text.len() < 2 {
        return;
    }
    for (index, line) in text.lines().enumerate() {
        for word in line.split(|c: char| !c.is_alphanumeric() && c != '_') {
            let word = word.to_lowercase();
            if PRONOUNS.contains(&word.as_str()) {
                found.push(Found { line: first_line + index, word });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ratchet::tokens;

    #[test]
    fn comments_and_docs_are_read_and_code_is_not() {
        let text = "//! Nobody.\n/// É: whoever's, He.\nfn his(s: &str) { // him\n    \
            f(\"she // her\", s /* someone\n and everyone */);\n}\n#[doc = \"anybody\"]\nstruct He;\n\
            // a nobody_else, the\n// somebody";
        let found = pronouns(text, &tokens::code(text, text.parse().unwrap()));
        let found: Vec<(usize, &str)> =
            found.iter().map(|found| (found.line, found.word.as_str())).collect();
        assert_eq!(
            found,
            [
                (1, "nobody"),
                (2, "whoever"),
                (2, "he"),
                (3, "him"),
                (4, "someone"),
                (5, "everyone"),
                (10, "somebody")
            ]
        );
    }

    #[test]
    fn pages_are_prose_as_a_whole() {
        let found = pronouns_of_page("# A\n\nWhoever `he` is, (she).\n");
        assert_eq!(found.iter().map(|found| found.line).collect::<Vec<_>>(), [3, 3, 3]);
    }
}
