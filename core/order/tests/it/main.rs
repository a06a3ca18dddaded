//! Of everything that is ordered, from outside.

mod envelopes;
mod orderers;
mod reader;
mod samples;
mod solo;
mod submissions;
mod vectors;
