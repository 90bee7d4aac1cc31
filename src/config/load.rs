//! Finds the settings: flags, environment, file; and reads them in the order of precedence.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::Config;
use super::reader::Reader;
use crate::error::{Error, Kind, Result};

/// The longest file read as settings, in bytes.
const FILE_MAX: u64 = 4 << 20;

/// What comes before the file: flags and environment.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `--config`: this file and no other.
    pub config: Option<PathBuf>,
    /// `--set TABLE.KEY=VALUE`, each as key and value; the last of a key counts.
    pub set: Vec<(String, String)>,
    /// The environment. Only names that begin with `HWGATE_` matter.
    pub env: BTreeMap<String, String>,
    /// The working directory, where the search begins and relative paths start if there is no file.
    pub cwd: PathBuf,
}

impl Overrides {
    /// With the environment and the working directory of this process.
    ///
    /// An `HWGATE_` variable that is not UTF-8 is BAD_ENCODING.
    pub fn from_process() -> Result<Overrides> {
        let mut env = BTreeMap::new();
        for (name, value) in std::env::vars_os() {
            let Some(name) = name.to_str().filter(|name| name.starts_with("HWGATE_")) else { continue };
            let value = value.into_string().map_err(|_| {
                Error::new(Kind::BadEncoding, format!("{name} in the environment is not UTF-8"))
            })?;
            env.insert(name.to_owned(), value);
        }
        let cwd = std::env::current_dir().map_err(|error| Error::io("the working directory", &error))?;
        Ok(Overrides { config: None, set: Vec::new(), env, cwd })
    }

    /// The file to read: `--config`, `HWGATE_CONFIG`, `./hwgate.toml`, then the machine's own.
    /// None when none of the last two exists.
    pub fn find_file(&self) -> Option<PathBuf> {
        let given = self.config.clone().or_else(|| {
            let name = self.env.get("HWGATE_CONFIG").filter(|name| !name.is_empty());
            name.map(PathBuf::from)
        });
        if let Some(path) = given {
            return Some(self.cwd.join(path));
        }
        [self.cwd.join("hwgate.toml"), machine_file()].into_iter().find(|path| path.is_file())
    }
}

/// The settings file of the whole machine.
pub fn machine_file() -> PathBuf {
    if cfg!(windows) {
        let data = std::env::var_os("ProgramData").unwrap_or_else(|| r"C:\ProgramData".into());
        PathBuf::from(data).join("HwGate").join("hwgate.toml")
    } else {
        PathBuf::from("/etc/hwgate/hwgate.toml")
    }
}

/// Where a value came from. Errors begin with it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The file, with line and column from 1.
    File {
        /// The file's name; empty for text that came from no file.
        name: String,
        /// Counted from 1.
        line: usize,
        /// In characters, counted from 1.
        column: usize,
    },
    /// This environment variable.
    Env(String),
    /// `--set`.
    Flag(String),
    /// Nobody set it.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File { name, line, column } if name.is_empty() => write!(f, "line {line}:{column}"),
            Origin::File { name, line, column } => write!(f, "{name}:{line}:{column}"),
            Origin::Env(name) => f.write_str(name),
            Origin::Flag(key) => write!(f, "--set {key}"),
            Origin::Default => f.write_str("the default"),
        }
    }
}

/// Where each value that is no default came from, by `table.key`; those of `[[log]]` are `log.0.path`.
pub type Origins = BTreeMap<String, Origin>;

/// Checked settings and what a person should know about them.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The settings in force.
    pub config: Config,
    /// Sentences to show at start.
    pub warnings: Vec<String>,
    /// Where each value came from; what is missing is a default.
    pub origins: Origins,
}

impl Config {
    /// Finds, reads and checks the settings. Reads at most one file; blocks only for that.
    ///
    /// All faults are reported in one error, one a line, each with its place, what is wrong and what is
    /// allowed: INVALID_ARGUMENT, BAD_ENCODING for a file that is not UTF-8, or the kind of what
    /// kept the file from being read.
    pub fn load(overrides: &Overrides) -> Result<Loaded> {
        let file = overrides.find_file();
        let text = match &file {
            Some(path) => read_file(path)?,
            None => String::new(),
        };
        let base = file.as_deref().and_then(Path::parent).unwrap_or(&overrides.cwd).to_owned();
        let name = file.as_ref().map_or(String::new(), |path| path.display().to_string());
        let mut reader = Reader::new(name, &text);
        reader.file();
        reader.env(&overrides.env);
        reader.flags(&overrides.set);
        let mut loaded = reader.finish(&base)?;
        loaded.config.file = file;
        loaded.config.set = overrides.set.clone();
        Ok(loaded)
    }

    /// Reads the same settings again for a reload: the same file or, where there was none, what is found
    /// now; the same flags; the environment of this process. Errors as for [`Config::load`].
    pub fn load_again(&self) -> Result<Loaded> {
        let process = Overrides::from_process()?;
        let config = self.file.clone();
        Config::load(&Overrides { config, set: self.set.clone(), ..process })
    }

    /// Reads and checks settings from text alone; relative paths start at `base_dir`.
    ///
    /// Errors as for [`Config::load`].
    pub fn from_toml(text: &str, base_dir: &Path) -> Result<Config> {
        let mut reader = Reader::new(String::new(), text);
        reader.file();
        reader.finish(base_dir).map(|loaded| loaded.config)
    }
}

fn read_file(path: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(FILE_MAX + 1).read_to_end(&mut bytes))
        .map_err(|error| Error::io(path.display(), &error))?;
    if bytes.len() as u64 > FILE_MAX {
        let text = format!("{}: longer than {FILE_MAX} bytes; is this a settings file?", path.display());
        return Err(Error::new(Kind::TooLarge, text));
    }
    decode(&bytes).map_err(|reason| Error::new(Kind::BadEncoding, format!("{}: {reason}", path.display())))
}

fn decode(bytes: &[u8]) -> std::result::Result<String, String> {
    // Windows PowerShell's `>` and Set-Content write UTF-16 with a mark, its UTF8 has one too.
    if bytes.starts_with(b"\xff\xfe")
        || bytes.starts_with(b"\xfe\xff")
        || bytes.iter().take(64).any(|b| *b == 0)
    {
        return Err("UTF-16, expected UTF-8; save the file as UTF-8".to_owned());
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => {
            let line = bytes[..error.valid_up_to()].iter().filter(|b| **b == b'\n').count() + 1;
            Err(format!("line {line} is not UTF-8; save the file as UTF-8"))
        }
    }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
