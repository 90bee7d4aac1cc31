//! Standard output and error. A reader that went away, as in `hwgate check | head`, is no fault:
//! `println!` would panic.

use std::io::{self, Write};

/// Writes a line to standard output, at once.
pub fn say(line: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Writes a line to standard error, with the program's name.
pub fn complain(line: &str) {
    let _ = writeln!(io::stderr().lock(), "hwgate: {line}");
}
