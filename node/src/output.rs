//! What commands print.
//!
//! A reader that has seen enough (`tally config show | head`) closes the pipe: the command ends
//! then, in silence and with success, as what it was asked for is done. The standard library's own
//! macros would panic; those of their names here stand for them in
//! this whole crate, and in others by `#[macro_use] extern crate node`.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::process::exit;

pub fn put(text: Arguments<'_>, ends_line: bool) {
    let mut out = io::stdout().lock();
    let end = if ends_line { "\n" } else { "" };
    match out.write_fmt(text).and_then(|()| out.write_all(end.as_bytes())) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => exit(0),
        Err(error) => {
            put_error(format_args!("tally: cannot write to standard output: {error}"), true);
            exit(1)
        }
    }
}

/// Where a node serves, nothing that is printed is worth ending it.
pub fn put_or_leave(text: Arguments<'_>) {
    let mut out = io::stdout().lock();
    let _ = out.write_fmt(text).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush());
}

/// To standard error, of which nothing depends.
pub fn put_error(text: Arguments<'_>, ends_line: bool) {
    let mut err = io::stderr().lock();
    let end = if ends_line { "\n" } else { "" };
    let _ = err.write_fmt(text).and_then(|()| err.write_all(end.as_bytes()));
}

#[macro_export]
macro_rules! println {
    () => { $crate::output::put(format_args!(""), true) };
    ($($text:tt)*) => { $crate::output::put(format_args!($($text)*), true) };
}

#[macro_export]
macro_rules! print {
    ($($text:tt)*) => { $crate::output::put(format_args!($($text)*), false) };
}

#[macro_export]
macro_rules! eprintln {
    ($($text:tt)*) => { $crate::output::put_error(format_args!($($text)*), true) };
}
