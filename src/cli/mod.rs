//! The program: one file a subcommand.

mod check;
pub mod exit;
mod init;
mod logger;
mod output;
mod overview;
mod push;
mod run;
mod settings;
mod signals;
mod status;
mod supervisor;
mod tell;
mod version;

use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::client::Requester;
use crate::error::Result;
use exit::Failure;

/// How long a server may take to answer before there counts as none.
const CONNECT: Duration = Duration::from_secs(1);
/// How long a reply may take.
const REPLY: Duration = Duration::from_secs(5);

/// A gateway between hardware, scripts and log files.
///
/// Without a command: whether a gateway answers, and what to type next.
#[derive(Debug, Parser)]
#[command(name = "hwgate", after_help = exit::HELP)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    target: Target,
}

/// Which gateway to ask.
#[derive(Debug, clap::Args)]
struct Target {
    /// The commands endpoint of the gateway [default: HWGATE_URL, else tcp://127.0.0.1:10003]
    #[arg(long, global = true, value_name = "ENDPOINT")]
    url: Option<String>,
}

impl Target {
    /// Connects to the gateway.
    fn connect(&self) -> Result<Requester> {
        Requester::connect(self.url.as_deref(), CONNECT)
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gateway until a signal or `hwgate stop`
    Run(settings::Settings),
    /// Check the settings and print those in force
    Check(settings::Settings),
    /// Write a commented settings file
    Init(init::Init),
    /// What the gateway does
    Status(status::Status),
    /// Stop the gateway
    Stop,
    /// Make the gateway read its settings again
    Reload,
    /// Make the gateway reopen its log files, after they were moved
    Reopen,
    /// Log one line, or each line of standard input
    Push(push::Push),
}

/// Parses the command line and runs the command.
pub fn main() -> ExitCode {
    let matches = Cli::command().version(version::short()).long_version(version::long()).try_get_matches();
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors, and go to standard output.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { exit::USAGE } else { exit::OK });
        }
    };
    let target = &cli.target;
    let outcome = match cli.command {
        None => overview::overview(target),
        Some(Command::Run(settings)) => run::run(&settings),
        Some(Command::Check(settings)) => check::check(&settings),
        Some(Command::Init(init)) => init.run(),
        Some(Command::Status(status)) => status.run(target),
        Some(Command::Stop) => tell::stop(target),
        Some(Command::Reload) => tell::reload(target),
        Some(Command::Reopen) => tell::reopen(target),
        Some(Command::Push(push)) => push.run(target),
    };
    match outcome {
        Ok(()) => ExitCode::from(exit::OK),
        Err(Failure { code, message }) => {
            if !message.is_empty() {
                output::complain(&message);
            }
            ExitCode::from(code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
