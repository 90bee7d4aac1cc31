//! `hwgate completions`: for the user's shell.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::cli::exit::Failure;

/// Print completions for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "Where they go:
  bash         hwgate completions bash > /etc/bash_completion.d/hwgate
  zsh          hwgate completions zsh > ~/.zfunc/_hwgate, a folder of fpath
  fish         hwgate completions fish > ~/.config/fish/completions/hwgate.fish
  powershell   hwgate completions powershell >> $PROFILE")]
pub struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    /// Prints them.
    pub fn run(&self) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "hwgate", &mut script);
        super::output::say(String::from_utf8_lossy(&script).trim_end());
        Ok(())
    }
}
