//! Against real servers, which each run starts for itself: see [`servers`].

mod agreement;
mod chain;
mod digests;
mod network;
mod parallel;
mod random;
mod servers;
mod single;
mod stages;
