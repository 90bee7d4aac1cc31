//! All integration tests in one binary, one module a subject.

mod cli;
mod client;
mod client_rig;
mod crash;
mod forward;
mod gateway;
mod hardware;
mod program;
