//! Of everything that is ordered, from outside.

mod envelopes;
mod orderers;
mod reader;
mod samples;
mod signed;
mod solo;
mod submissions;
mod vectors;
