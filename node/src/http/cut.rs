//! Texts that a page shows no more of than people read.

/// Of a value that is shown.
const CHARACTERS_MAX: usize = 4_000;

pub fn cut(text: &str) -> String {
    match text.char_indices().nth(CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
