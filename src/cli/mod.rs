//! The program: one file a subcommand.

mod check;
mod completions;
pub mod exit;
mod init;
mod logger;
mod methods;
mod output;
mod overview;
mod ports;
mod push;
mod request;
mod run;
mod settings;
mod signals;
mod sim;
mod status;
mod supervisor;
mod tail;
mod tail_forward;
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

    /// Whether nobody said which gateway.
    fn is_default(&self) -> bool {
        self.url.is_none() && std::env::var_os("HWGATE_URL").is_none_or(|url| url.is_empty())
    }
}

/// A time from the command line: with a unit, or in seconds.
fn duration(text: &str) -> std::result::Result<Duration, String> {
    match text.parse() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string()),
        Err(_) => crate::config::parse_duration(text),
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
    /// Show events as they come: what the hardware says, states, log records; or what passes a forwarder
    Tail(tail::Tail),
    /// Ask the gateway: any method, such as serial.write or audio.play
    Request(request::Request),
    /// List the serial ports of the gateway's machine, without opening any
    Ports(ports::Ports),
    /// Make a `sim:` port read a text, as if its device had sent it
    Sim(sim::Sim),
    /// Print completions for a shell
    Completions(completions::Completions),
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
        Some(Command::Tail(tail)) => tail.run(target),
        Some(Command::Request(request)) => request.run(target),
        Some(Command::Ports(ports)) => ports.run(target),
        Some(Command::Sim(sim)) => sim.run(target),
        Some(Command::Completions(completions)) => completions.run(),
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
