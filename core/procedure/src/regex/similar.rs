//! Patterns of SIMILAR TO and of `substring … SIMILAR`, as regular expressions.

use types::{Error, Result, SqlState};

/// A pattern of SIMILAR TO, or of `substring … SIMILAR`, as a regular expression, as PostgreSQL's
/// `similar_to_escape` writes it.
///
/// # Errors
/// 2200C for more than two separators.
pub fn of_similar(pattern: &str, escape: Option<char>) -> Result<String> {
    let mut out = String::from("^(?:");
    let (mut after_escape, mut in_brackets, mut separators) = (false, false, 0);
    // What stands before the part that is wanted is as short as it can be.
    let is_divided = escape.is_some_and(|escape| pattern.contains(&format!("{escape}\"")));
    for c in pattern.chars() {
        if after_escape {
            if c == '"' && !in_brackets {
                match separators {
                    0 => out.push_str(")("),
                    1 => out.push_str(")(?:"),
                    _ => {
                        let what = "SQL regular expression may not contain more than two \
                                    escape-double-quote separators";
                        return Err(Error::new(SqlState(*b"2200C"), what));
                    }
                }
                separators += 1;
            } else {
                out.push('\\');
                out.push(c);
            }
            after_escape = false;
            continue;
        }
        if escape == Some(c) {
            after_escape = true;
            continue;
        }
        match c {
            _ if in_brackets => {
                if c == '\\' {
                    out.push('\\');
                }
                out.push(c);
                in_brackets = c != ']';
            }
            '[' => {
                out.push(c);
                in_brackets = true;
            }
            '%' if is_divided && separators == 0 => out.push_str(".*?"),
            '%' => out.push_str(".*"),
            '_' => out.push('.'),
            '(' => out.push_str("(?:"),
            '\\' | '.' | '^' | '$' => {
                out.push('\\');
                out.push(c);
            }
            other => out.push(other),
        }
    }
    out.push_str(")$");
    Ok(out)
}
