//! A search path: names of schemas, as a setting or a recorded text lists them. What they mean is
//! for [`schema::search_path`](crate::schema::search_path).

use std::sync::Arc;

use crate::syntax::names::PUBLIC;

/// Schemas in the order in which names are looked for, whether they exist or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchPath(pub(crate) Arc<[String]>);

impl Default for SearchPath {
    fn default() -> SearchPath {
        SearchPath([PUBLIC.to_owned()].into())
    }
}

impl SearchPath {
    /// Of the setting's text, a list of identifiers.
    pub fn of_setting(text: &str, user: &str) -> SearchPath {
        let mut names: Vec<String> = Vec::new();
        for name in listed(text) {
            let name = if name == "$user" { user.to_owned() } else { name };
            if !name.is_empty() && !names.contains(&name) {
                names.push(name);
            }
        }
        SearchPath(names.into())
    }
}

/// Identifiers between commas, folded unless they are quoted.
fn listed(text: &str) -> Vec<String> {
    let (mut names, mut name, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut rest = text.trim().chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' if is_quoted && rest.peek() == Some(&'"') => {
                rest.next();
                name.push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => names.push(std::mem::take(&mut name)),
            c if is_quoted => name.push(c),
            c if c.is_whitespace() => {}
            c => name.push(c.to_ascii_lowercase()),
        }
    }
    names.push(name);
    names
}
