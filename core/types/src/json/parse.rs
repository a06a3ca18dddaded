//! Reading any text as JSON. Without recursion, so that no text is too deep for the stack.

use compact_str::CompactString;

use super::depth::{DEPTH_MAX, too_deep};
use super::lexer::{Lexer, Token};
use super::write::push_string;
use crate::error::Result;
use crate::made::check_made_bytes;
use crate::numeric;

/// What is told of a text's parts as they come.
trait Parts {
    fn open(&mut self, is_object: bool);
    fn close(&mut self);
    fn key(&mut self, key: &str);
    fn scalar(&mut self, scalar: Token<'_>) -> Result<()>;
}

/// Whether a text is a `json`: 22P02 if not.
pub fn check(text: &str) -> Result<()> {
    struct Unseen;
    impl Parts for Unseen {
        fn open(&mut self, _: bool) {}
        fn close(&mut self) {}
        fn key(&mut self, _: &str) {}
        fn scalar(&mut self, _: Token<'_>) -> Result<()> {
            Ok(())
        }
    }
    parse(text, false, &mut Unseen)
}

/// The canonical form of a text.
pub(super) fn canonical(text: &str) -> Result<CompactString> {
    let mut tree = TreeMaker::default();
    parse(text, true, &mut tree)?;
    let mut out = String::with_capacity(text.len());
    if let Some(whole) = tree.whole {
        whole.write(&mut out);
    }
    check_made_bytes(out.len())?;
    Ok(CompactString::from(out))
}

fn parse(text: &str, reads_strings: bool, parts: &mut impl Parts) -> Result<()> {
    let mut lexer = Lexer::new(text, reads_strings);
    // Whether each of what is open is an object.
    let mut open: Vec<bool> = Vec::new();
    let mut token = lexer.next()?;
    loop {
        // Here stands a value, or the end of an array without any.
        let is_first = match token {
            Token::OpenObject | Token::OpenArray => {
                let is_object = token == Token::OpenObject;
                if open.len() >= DEPTH_MAX {
                    return Err(too_deep());
                }
                open.push(is_object);
                parts.open(is_object);
                token = lexer.next()?;
                match (is_object, &token) {
                    (true, Token::String(_)) => {
                        token = member(token, &mut lexer, "string or \"}\"", parts)?;
                        true
                    }
                    (true, Token::CloseObject) | (false, Token::CloseArray) => false,
                    (true, _) => return Err(lexer.unexpected("string or \"}\"")),
                    (false, _) => true,
                }
            }
            Token::String(_) | Token::Number(_) | Token::Word(_) => {
                parts.scalar(token)?;
                token = lexer.next()?;
                false
            }
            _ => return Err(lexer.unexpected("JSON value")),
        };
        if is_first {
            continue;
        }
        // After a value, or where an array or object without any ends.
        loop {
            match (open.last(), &token) {
                (None, Token::End) => return Ok(()),
                (None, _) => return Err(lexer.unexpected("end of input")),
                (Some(true), Token::CloseObject) | (Some(false), Token::CloseArray) => {
                    open.pop();
                    parts.close();
                    token = lexer.next()?;
                }
                (Some(true), Token::Comma) => {
                    token = lexer.next()?;
                    token = member(token, &mut lexer, "string", parts)?;
                    break;
                }
                (Some(false), Token::Comma) => {
                    token = lexer.next()?;
                    break;
                }
                (Some(true), _) => return Err(lexer.unexpected("\",\" or \"}\"")),
                (Some(false), _) => return Err(lexer.unexpected("\",\" or \"]\"")),
            }
        }
    }
}

/// Takes a key and its colon, and answers the token after.
fn member<'a>(
    key: Token<'a>,
    lexer: &mut Lexer<'a>,
    expected: &str,
    parts: &mut impl Parts,
) -> Result<Token<'a>> {
    let Token::String(key) = key else { return Err(lexer.unexpected(expected)) };
    if lexer.next()? != Token::Colon {
        return Err(lexer.unexpected("\":\""));
    }
    parts.key(&key);
    lexer.next()
}

/// Sorted, without doubles; scalars in canonical form.
enum Tree {
    Scalar(CompactString),
    Array(Vec<Tree>),
    Object(Vec<(CompactString, Tree)>),
}

#[derive(Default)]
struct TreeMaker {
    open: Vec<Tree>,
    /// Of each open object, the key whose value comes.
    keys: Vec<CompactString>,
    whole: Option<Tree>,
    /// Bytes of the scalars so far: a number such as 1e100000 is longer than what was read.
    made: usize,
}

impl TreeMaker {
    fn add(&mut self, tree: Tree) {
        match self.open.last_mut() {
            Some(Tree::Array(elements)) => elements.push(tree),
            Some(Tree::Object(members)) => {
                members.push((self.keys.pop().unwrap_or_default(), tree));
            }
            _ => self.whole = Some(tree),
        }
    }
}

impl Parts for TreeMaker {
    fn open(&mut self, is_object: bool) {
        self.open.push(if is_object { Tree::Object(Vec::new()) } else { Tree::Array(Vec::new()) });
    }

    fn close(&mut self) {
        let Some(mut closed) = self.open.pop() else { return };
        if let Tree::Object(members) = &mut closed {
            // The last of a key's values counts, so it has to come first among its like.
            members.reverse();
            members.sort_by(|a, b| compare_keys(&a.0, &b.0));
            members.dedup_by(|later, kept| later.0 == kept.0);
        }
        self.add(closed);
    }

    fn key(&mut self, key: &str) {
        self.keys.push(CompactString::new(key));
    }

    fn scalar(&mut self, scalar: Token<'_>) -> Result<()> {
        let text = match scalar {
            Token::Number(text) => {
                let number = numeric::parse(text)?.map(|number| number.to_string());
                CompactString::from(number.unwrap_or_default())
            }
            Token::String(said) => {
                let mut out = String::with_capacity(said.len() + 2);
                push_string(&said, &mut out);
                CompactString::from(out)
            }
            Token::Word(word) => CompactString::new(word),
            _ => CompactString::default(),
        };
        self.made += text.len();
        check_made_bytes(self.made)?;
        self.add(Tree::Scalar(text));
        Ok(())
    }
}

impl Tree {
    fn write(&self, out: &mut String) {
        let separate = |place: usize, out: &mut String| {
            if place > 0 {
                out.push_str(", ");
            }
        };
        match self {
            Tree::Scalar(text) => out.push_str(text),
            Tree::Array(elements) => {
                out.push('[');
                for (place, element) in elements.iter().enumerate() {
                    separate(place, out);
                    element.write(out);
                }
                out.push(']');
            }
            Tree::Object(members) => {
                out.push('{');
                for (place, (key, member)) in members.iter().enumerate() {
                    separate(place, out);
                    push_string(key, out);
                    out.push_str(": ");
                    member.write(out);
                }
                out.push('}');
            }
        }
    }
}

/// The order of an object's keys in a `jsonb`.
pub fn compare_keys(a: &str, b: &str) -> std::cmp::Ordering {
    a.len().cmp(&b.len()).then_with(|| a.as_bytes().cmp(b.as_bytes()))
}
