//! An orderer against CometBFT without consensus, in one thread.

mod conformance;
mod fake;
