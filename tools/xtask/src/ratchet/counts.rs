//! What is counted in a file of source, without its tests.

use std::ops::Range;

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::conditions::{is_test, item_attributes, member_attributes};

const ASSERTIONS: &[&str] =
    &["assert", "assert_eq", "assert_ne", "debug_assert", "debug_assert_eq", "debug_assert_ne"];

#[derive(Debug, Default)]
pub struct Counts {
    /// All lines of the file, tests and comments too.
    pub lines: usize,
    /// Lines with code.
    pub code: usize,
    /// The line of each assertion.
    pub assertions: Vec<usize>,
    /// The line of each `Result<_, String>`.
    pub string_errors: Vec<usize>,
    /// Each function with its lines.
    pub functions: Vec<(String, usize)>,
}

impl Counts {
    /// Of a parsed text, whose code is in these ranges.
    pub fn of(text: &str, parsed: &syn::File, code: &[Range<usize>]) -> Self {
        let mut counter = Counter::default();
        counter.visit_file(parsed);
        let mut counts = counter.counts;
        counts.lines = text.lines().count();
        let mut has_code = lines_with_code(text, code);
        for (from, to) in counter.tests {
            has_code[from..=to].fill(false);
        }
        counts.code = has_code.into_iter().filter(|code| *code).count();
        counts
    }
}

/// For each line, from 1, whether it has code. A string of several lines is code in each.
fn lines_with_code(text: &str, code: &[Range<usize>]) -> Vec<bool> {
    let mut has_code = vec![false];
    let mut ranges = code.iter().peekable();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        while ranges.next_if(|range| range.end <= start).is_some() {}
        has_code.push(ranges.peek().is_some_and(|range| range.start < end));
        start = end;
    }
    has_code
}

#[derive(Default)]
struct Counter {
    counts: Counts,
    /// The type, trait or function that encloses what is visited.
    within: Vec<String>,
    /// First and last lines of what only tests compile.
    tests: Vec<(usize, usize)>,
}

impl Counter {
    fn pass_over(&mut self, node: &impl Spanned) {
        let span = node.span();
        self.tests.push((span.start().line, span.end().line));
    }

    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        self.within.push(signature.ident.to_string());
        let first = signature.span().start().line;
        let last = block.brace_token.span.close().end().line;
        self.counts.functions.push((self.within.join("::"), last - first + 1));
    }

    /// Assertions in what a macro is given.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut name = None;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => name = Some(ident),
                TokenTree::Punct(punct) if punct.as_char() == '!' => {
                    if let Some(name) = name.take() {
                        self.assertion(&name);
                    }
                }
                TokenTree::Group(group) => {
                    name = None;
                    self.tokens(group.stream());
                }
                _ => name = None,
            }
        }
    }

    fn assertion(&mut self, name: &proc_macro2::Ident) {
        if ASSERTIONS.iter().any(|assertion| name == assertion) {
            self.counts.assertions.push(name.span().start().line);
        }
    }
}

/// The last name of a type's path.
fn name_of(of: &syn::Type) -> Option<String> {
    match of {
        syn::Type::Path(path) => path.path.segments.last().map(|part| part.ident.to_string()),
        syn::Type::Reference(reference) => name_of(&reference.elem),
        _ => None,
    }
}

impl<'ast> Visit<'ast> for Counter {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if is_test(item_attributes(item)) {
            return self.pass_over(item);
        }
        let depth = self.within.len();
        match item {
            syn::Item::Fn(function) => self.function(&function.sig, &function.block),
            syn::Item::Impl(of) => self.within.extend(name_of(&of.self_ty)),
            syn::Item::Trait(of) => self.within.push(of.ident.to_string()),
            syn::Item::Mod(of) => self.within.push(of.ident.to_string()),
            _ => {}
        }
        visit::visit_item(self, item);
        self.within.truncate(depth);
    }

    fn visit_impl_item(&mut self, member: &'ast syn::ImplItem) {
        if is_test(member_attributes(member)) {
            return self.pass_over(member);
        }
        let depth = self.within.len();
        if let syn::ImplItem::Fn(function) = member {
            self.function(&function.sig, &function.block);
        }
        visit::visit_impl_item(self, member);
        self.within.truncate(depth);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        let depth = self.within.len();
        if let Some(block) = &function.default {
            self.function(&function.sig, block);
        }
        visit::visit_trait_item_fn(self, function);
        self.within.truncate(depth);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        if let Some(name) = call.path.get_ident() {
            self.assertion(name);
        }
        self.tokens(call.tokens.clone());
    }

    fn visit_path_segment(&mut self, segment: &'ast syn::PathSegment) {
        if segment.ident == "Result"
            && let syn::PathArguments::AngleBracketed(of) = &segment.arguments
            && let Some(syn::GenericArgument::Type(error @ syn::Type::Path(_))) = of.args.get(1)
            && name_of(error).is_some_and(|name| name == "String")
        {
            self.counts.string_errors.push(segment.ident.span().start().line);
        }
        visit::visit_path_segment(self, segment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ratchet::tokens;

    fn counts(text: &str) -> Counts {
        let code = tokens::code(text, text.parse().unwrap());
        Counts::of(text, &syn::parse_file(text).unwrap(), &code)
    }

    #[test]
    fn code_is_what_is_no_comment_blank_or_test() {
        let text = "//! Docs.\n\n/// More.\nfn f() {\n    // no\n    g(\n        \"a\nb\",\n    );\n}\n\
            #[cfg(test)]\nmod tests {\n    fn g() {}\n}\n/** a\n b */\n#[inline]\nfn h() {}\n";
        assert_eq!(counts(text).code, 8);
        assert_eq!(counts(text).lines, 18);
    }

    #[test]
    fn assertions_are_counted_in_macros_and_not_in_tests() {
        let text = "fn f() {\n assert!(a);\n debug_assert_eq!(a, b, \"assert!(x)\");\n}\n\
            macro_rules! m { () => {\n assert_ne!(a, b) } }\nconst _: () = assert!(N > 1);\n\
            #[test]\nfn t() { assert!(a); }\nimpl A { #[cfg(test)] fn g() { assert!(a) } }";
        assert_eq!(counts(text).assertions, [2, 3, 6, 7]);
    }

    #[test]
    fn functions_are_named_with_what_they_are_in() {
        let text = "fn f() {\n}\nimpl A for B<C> {\n  #[inline]\n  /// Docs.\n  fn g(\n  ) {\n  \
            fn h() {}\n  }\n}\ntrait T { fn i() {\n } fn j(); }\nmod m { async fn k() {} }";
        let expected = [("f", 2), ("B::g", 4), ("B::g::h", 1), ("T::i", 2), ("m::k", 1)];
        let expected = expected.map(|(name, lines)| (name.to_owned(), lines));
        assert_eq!(counts(text).functions, expected);
    }

    #[test]
    fn string_errors_are_results_of_strings() {
        let text = "fn f() -> Result<u8, String> {}\ntype A = Option<Result<(), std::string::String>>;\n\
            fn g() -> Result<String, E> {}\nfn h() { let x: Result<_, &String>; }\n\
            #[cfg(test)] fn t() -> Result<u8, String> {}";
        assert_eq!(counts(text).string_errors, [1, 2]);
    }
}
