//! Receiving at the speed of libzmq: one message kept and filled anew, its peer's address without an
//! allocation. The `zmq` crate's `Message::gets` makes a C string for each call, which at a million
//! messages a second is a tenth of the work.

use std::ffi::{CStr, c_int};

use zmq::Socket;
use zmq_sys::zmq_msg_t;

use crate::last_error;

/// One frame, received into again and again.
///
/// ```
/// let context = zmq::Context::new();
/// let (mut pull, push) = (context.socket(zmq::PULL)?, context.socket(zmq::PUSH)?);
/// pull.bind("inproc://lines")?;
/// push.connect("inproc://lines")?;
/// push.send("one", 0)?;
/// let mut frame = hwgate_zmq::Incoming::new();
/// frame.receive(&mut pull, 0)?;
/// assert_eq!(frame.bytes(), b"one");
/// assert!(!frame.more());
/// assert_eq!(frame.peer_address(), None); // inproc peers have none
/// # Ok::<(), zmq::Error>(())
/// ```
pub struct Incoming {
    // Boxed, since libzmq's manual forbids to move a message behind its back.
    message: Box<zmq_msg_t>,
}

impl Incoming {
    /// An empty frame.
    #[must_use]
    pub fn new() -> Incoming {
        let mut message = Box::<zmq_msg_t>::default();
        // SAFETY: it fills the 64 bytes given; it cannot fail.
        unsafe { zmq_sys::zmq_msg_init(&raw mut *message) };
        Incoming { message }
    }

    /// Receives the next frame in place of the one held. Waits unless `flags` has
    /// [`zmq::DONTWAIT`] or the socket a time-out.
    ///
    /// # Errors
    /// [`zmq::Error::EAGAIN`] when there is none; [`zmq::Error::ETERM`] when the context has ended. The
    /// frame is then empty or the one held before.
    pub fn receive(&mut self, socket: &mut Socket, flags: i32) -> zmq::Result<()> {
        // SAFETY: the message is initialised; the socket is alive and borrowed for us alone.
        let rc =
            unsafe { zmq_sys::zmq_msg_recv(&raw mut *self.message, socket.as_mut_ptr(), flags as c_int) };
        if rc < 0 { Err(last_error()) } else { Ok(()) }
    }

    /// The bytes of the frame.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        let message = (&raw const *self.message).cast_mut();
        // SAFETY: the message is initialised; neither call changes it, and the bytes live until it is
        // received into or dropped, for both of which `self` is borrowed mutably.
        unsafe {
            let data = zmq_sys::zmq_msg_data(message).cast::<u8>();
            std::slice::from_raw_parts(data, zmq_sys::zmq_msg_size(message))
        }
    }

    /// Whether further frames of the same message follow.
    #[must_use]
    pub fn more(&self) -> bool {
        // SAFETY: the message is initialised.
        unsafe { zmq_sys::zmq_msg_more(&raw const *self.message) != 0 }
    }

    /// The address that the message came from, such as `192.168.1.7`; none for inproc, and for ipc on
    /// some systems.
    #[must_use]
    pub fn peer_address(&self) -> Option<&CStr> {
        const PEER_ADDRESS: &CStr = c"Peer-Address";
        // SAFETY: message and name are valid; what comes back is null or a string that belongs to the
        // message's connection data, which the message holds.
        unsafe {
            let address = zmq_sys::zmq_msg_gets(&raw const *self.message, PEER_ADDRESS.as_ptr());
            (!address.is_null()).then(|| CStr::from_ptr(address))
        }
    }
}

impl Default for Incoming {
    fn default() -> Self {
        Incoming::new()
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // SAFETY: the message is initialised and not used again.
        unsafe { zmq_sys::zmq_msg_close(&raw mut *self.message) };
    }
}

// SAFETY: a message may be used by any thread, by one at a time.
unsafe impl Send for Incoming {}
