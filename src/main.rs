//! The hwgate program: parses and calls.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    hwgate::cli::main()
}
