//! All integration tests in one binary, one module a subject.

mod cli;
mod crash;
mod gateway;
mod hardware;
mod program;
