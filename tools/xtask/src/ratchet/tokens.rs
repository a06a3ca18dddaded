//! Finds which parts of a source text are code, and which are comments or space between.

use std::ops::Range;

use proc_macro2::{TokenStream, TokenTree};

/// The ranges of the tokens of code, in order. Between them are spaces and comments, doc comments
/// too.
pub fn code(text: &str, tokens: TokenStream) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    add(text, tokens, &mut ranges);
    ranges
}

fn add(text: &str, tokens: TokenStream, ranges: &mut Vec<Range<usize>>) {
    for token in tokens {
        if let TokenTree::Group(group) = &token {
            let open = group.span_open().byte_range();
            if !is_comment(text, open.start) {
                ranges.push(open);
                add(text, group.stream(), ranges);
                ranges.push(group.span_close().byte_range());
            }
        } else {
            let range = token.span().byte_range();
            if !is_comment(text, range.start) {
                ranges.push(range);
            }
        }
    }
}

/// A doc comment comes as the tokens of `#[doc = "…"]`, each with the span of the comment.
fn is_comment(text: &str, start: usize) -> bool {
    text[start..].starts_with("//") || text[start..].starts_with("/*")
}
