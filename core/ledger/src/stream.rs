//! The two streams of a ledger: orders, which are what is durable, and results, which can be
//! computed again from them.
//!
//! Both are logs of the same format in folders of their own; a stream is a value, so one piece of
//! code reads and writes either.

use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stream {
    Orders,
    Results,
}

impl Stream {
    pub const ALL: [Stream; 2] = [Stream::Orders, Stream::Results];

    /// The folder of the stream's segments.
    pub const fn folder(self) -> &'static str {
        match self {
            Stream::Orders => "orders",
            Stream::Results => "results",
        }
    }

    /// The folder of what is kept of pruned segments.
    pub const fn header_folder(self) -> &'static str {
        match self {
            Stream::Orders => "order-headers",
            Stream::Results => "result-headers",
        }
    }

    /// In the header of a file.
    pub(crate) const fn code(self) -> u32 {
        match self {
            Stream::Orders => 1,
            Stream::Results => 2,
        }
    }

    pub(crate) fn of_code(code: u32) -> Option<Stream> {
        Stream::ALL.into_iter().find(|stream| stream.code() == code)
    }

    /// The stream whose segments lie in a folder.
    pub(crate) fn of_folder(folder: &str) -> Option<Stream> {
        Stream::ALL.into_iter().find(|stream| stream.folder() == folder)
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.folder())
    }
}
