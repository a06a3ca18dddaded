//! Of everything that is ordered, from outside.

mod chance;
mod envelopes;
mod orderers;
mod reader;
mod samples;
mod solo;
mod submissions;
mod vectors;
