//! The one table of error kinds: number, name and meaning.
//!
//! Numbers are stable and never reused. The C library returns `-number`, JSON-RPC answers carry
//! `-32000 - number` and the name in `data.kind`, Python raises a class for each kind and PowerShell
//! sets `FullyQualifiedErrorId` to the name.

use std::fmt;

use serde_json::{Map, Value};

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal;)*) => {
        /// What went wrong, as a stable number and name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum Kind { $($(#[$doc])* $variant = $number,)* }

        impl Kind {
            /// Every kind, in the order of its number.
            pub const ALL: &[Kind] = &[$(Kind::$variant,)*];

            /// The name used on the wire and in messages, such as `DISK_FULL`.
            pub const fn name(self) -> &'static str {
                match self { $(Kind::$variant => $name,)* }
            }
        }
    };
}

kinds! {
    /// A defect in hwgate itself; please report it.
    Internal = 1, "INTERNAL";
    /// An argument, parameter or setting has a value that is not allowed.
    InvalidArgument = 2, "INVALID_ARGUMENT";
    /// The time given for the operation passed first. The outcome may be unknown.
    Timeout = 3, "TIMEOUT";
    /// The object was closed before or during the call.
    Closed = 4, "CLOSED";
    /// No gateway answers at the endpoint.
    NotConnected = 5, "NOT_CONNECTED";
    /// A bounded queue is full; the item was not taken.
    QueueFull = 6, "QUEUE_FULL";
    /// A message, record or parameter is larger than the limit.
    TooLarge = 7, "TOO_LARGE";
    /// Bytes are not valid in the encoding they should have.
    BadEncoding = 8, "BAD_ENCODING";
    /// No such device, file, topic, method target or play.
    NotFound = 9, "NOT_FOUND";
    /// The thing is in use by another.
    Busy = 10, "BUSY";
    /// Another client holds the lease of this device.
    Leased = 11, "LEASED";
    /// The operating system or the gateway's rules forbid it.
    Permission = 12, "PERMISSION";
    /// There is no such hardware, for instance no sound card.
    NoDevice = 13, "NO_DEVICE";
    /// The device or the peer went away during the operation. The outcome may be unknown.
    Disconnected = 14, "DISCONNECTED";
    /// The file or data has a format that is not supported.
    UnsupportedFormat = 15, "UNSUPPORTED_FORMAT";
    /// Another process listens on this address or holds this lock.
    AddrInUse = 16, "ADDR_IN_USE";
    /// No space is left where it is needed.
    DiskFull = 17, "DISK_FULL";
    /// The request itself is malformed.
    BadRequest = 18, "BAD_REQUEST";
    /// The peer did not prove who it is, or may not do this.
    Unauthorized = 19, "UNAUTHORIZED";
    /// This build or configuration does not have the function.
    NotEnabled = 20, "NOT_ENABLED";
    /// The gateway is stopping and takes nothing new.
    ShuttingDown = 21, "SHUTTING_DOWN";
    /// The object was made before a fork and cannot be used in the child.
    Forked = 22, "FORKED";
    /// Reading or writing a file or device failed.
    Io = 23, "IO";
    /// The caller's buffer is too small (C library only).
    BufferTooSmall = 24, "BUFFER_TOO_SMALL";
}

impl Kind {
    /// The stable number, 1 to 24.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The JSON-RPC error code of this kind: `-32000 - number`.
    ///
    /// Codes reserved by JSON-RPC (-32700, -32600, -32601, -32602) belong to the protocol layer,
    /// see [`crate::wire::rpc`].
    pub const fn rpc_code(self) -> i32 {
        -32000 - self as i32
    }

    /// The kind with this name, if there is one.
    pub fn from_name(name: &str) -> Option<Kind> {
        Kind::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An error that says what, where and what to do.
///
/// ```
/// use hwgate::{Error, Kind};
/// let error = Error::new(Kind::DiskFull, "logs/gateway.log: no space left; free some, writing resumes by itself");
/// assert_eq!(error.to_string(), "logs/gateway.log: no space left; free some, writing resumes by itself (DISK_FULL)");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: Kind,
    message: String,
    details: Option<Box<Map<String, Value>>>,
}

impl Error {
    /// An error of `kind` with a sentence for people.
    pub fn new(kind: Kind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into(), details: None }
    }

    /// The same with a detail for programs, such as how many bytes were written before a time-out. Details
    /// are members of `error.data` in replies.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Error {
        self.details.get_or_insert_default().insert(name.to_owned(), value.into());
        self
    }

    /// A detail for programs, if there is one of this name.
    pub fn detail(&self, name: &str) -> Option<&Value> {
        self.details.as_ref()?.get(name)
    }

    /// All details for programs.
    pub fn details(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.details.iter().flat_map(|details| details.iter())
    }

    /// An error of the file system at `path`, its kind taken from the operating system's answer.
    pub fn io(what: impl fmt::Display, error: &std::io::Error) -> Error {
        use std::io::ErrorKind as E;
        let kind = match error.kind() {
            E::NotFound => Kind::NotFound,
            E::PermissionDenied | E::ReadOnlyFilesystem => Kind::Permission,
            E::StorageFull | E::QuotaExceeded | E::FileTooLarge => Kind::DiskFull,
            E::AddrInUse => Kind::AddrInUse,
            E::TimedOut => Kind::Timeout,
            _ => Kind::Io,
        };
        Error::new(kind, format!("{what}: {error}"))
    }

    /// What went wrong, for programs.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What went wrong, for people, without the kind.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.kind)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_dense_and_names_unique() {
        for (index, kind) in Kind::ALL.iter().enumerate() {
            assert_eq!(kind.number() as usize, index + 1);
            assert_eq!(Kind::from_name(kind.name()), Some(*kind));
        }
        assert_eq!(Kind::ALL.len(), 24);
        assert_eq!(Kind::DiskFull.rpc_code(), -32017);
    }
}
