//! Receiving and passing on at the speed of libzmq: one message kept and filled anew, its peer's address without
//! an allocation. The `zmq` crate's `Message::gets` makes a C string for each call, which at a million
//! messages a second is a tenth of the work.

use std::cell::UnsafeCell;
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
    // Boxed, since libzmq's manual forbids to move a message behind its back; a cell, since libzmq counts references in
    // a message that it copies from.
    message: Box<UnsafeCell<zmq_msg_t>>,
}

impl Incoming {
    /// An empty frame.
    #[must_use]
    pub fn new() -> Incoming {
        let message = Box::<UnsafeCell<zmq_msg_t>>::default();
        // SAFETY: it fills the 64 bytes given; it cannot fail.
        unsafe { zmq_sys::zmq_msg_init(message.get()) };
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
        let rc = unsafe { zmq_sys::zmq_msg_recv(self.message.get(), socket.as_mut_ptr(), flags as c_int) };
        if rc < 0 { Err(last_error()) } else { Ok(()) }
    }

    /// Sends the frame on, without copying its bytes; it is empty afterwards. Waits as [`Socket::send`] does.
    ///
    /// # Errors
    /// [`zmq::Error::EAGAIN`] when the socket takes none now, [`zmq::Error::ETERM`] when the context has ended. The
    /// frame is then as it was.
    pub fn send(&mut self, socket: &mut Socket, flags: i32) -> zmq::Result<()> {
        // SAFETY: the message is initialised, and libzmq leaves it so; the socket is alive and borrowed for us alone.
        let rc = unsafe { zmq_sys::zmq_msg_send(self.message.get(), socket.as_mut_ptr(), flags as c_int) };
        if rc < 0 { Err(last_error()) } else { Ok(()) }
    }

    /// Gives the bytes memory of their own. What else belongs to the message, such as its peer's address, is lost.
    pub(crate) fn detach(&mut self) {
        let size = self.bytes().len();
        let mut copy = Incoming::new();
        // SAFETY: the message is initialised and holds nothing, so it may be initialised again; then it has `size`
        // bytes, which nobody else refers to, and the bytes copied are those of another message.
        unsafe {
            if zmq_sys::zmq_msg_init_size(copy.message.get(), size) != 0 {
                // No memory: the message stays where it is.
                zmq_sys::zmq_msg_init(copy.message.get());
                return;
            }
            let to = zmq_sys::zmq_msg_data(copy.message.get()).cast::<u8>();
            std::ptr::copy_nonoverlapping(self.bytes().as_ptr(), to, size);
        }
        std::mem::swap(&mut self.message, &mut copy.message);
    }

    /// Makes this another reference to the bytes of `other`; what it held is let go.
    pub fn share(&mut self, other: &Incoming) {
        // SAFETY: both messages are initialised; libzmq counts the reference in the source, which is borrowed from
        // its owner and not read by anyone else meanwhile.
        unsafe {
            zmq_sys::zmq_msg_copy(self.message.get(), other.message.get());
        }
    }

    /// The bytes of the frame.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        let message = self.message.get();
        // SAFETY: the message is initialised; neither call changes it, and the bytes live until it is
        // received into or dropped, for both of which `self` is borrowed mutably.
        unsafe {
            let data = zmq_sys::zmq_msg_data(message).cast::<u8>();
            std::slice::from_raw_parts(data, zmq_sys::zmq_msg_size(message))
        }
    }

    /// What all messages of one connection have in common; 0 where there is nothing.
    fn connection(&self) -> usize {
        let mut word = [0; size_of::<usize>()];
        // SAFETY: the message is initialised, and nobody else is at it: it is not Sync.
        let message = unsafe { &*self.message.get() };
        word.copy_from_slice(&message.__[..size_of::<usize>()]);
        usize::from_ne_bytes(word)
    }

    /// Another reference to the same message.
    fn copy(&self) -> Incoming {
        let mut copy = Incoming::new();
        copy.share(self);
        copy
    }

    /// Whether further frames of the same message follow.
    #[must_use]
    pub fn more(&self) -> bool {
        // SAFETY: the message is initialised.
        unsafe { zmq_sys::zmq_msg_more(self.message.get()) != 0 }
    }

    /// The address that the message came from, such as `192.168.1.7`; none for inproc, and for ipc on
    /// some systems.
    #[must_use]
    pub fn peer_address(&self) -> Option<&CStr> {
        const PEER_ADDRESS: &CStr = c"Peer-Address";
        // SAFETY: message and name are valid; what comes back is null or a string that belongs to the
        // message's connection data, which the message holds.
        unsafe {
            let address = zmq_sys::zmq_msg_gets(self.message.get(), PEER_ADDRESS.as_ptr());
            (!address.is_null()).then(|| CStr::from_ptr(address))
        }
    }
}

/// The addresses of the peers that messages come from, looked up once a connection.
///
/// libzmq finds an address by a search in a map of strings, which at a million messages a second is a
/// fifth of taking one. All messages of a connection share one block of connection data, whose address is
/// the first word of a message (`msg_t::base_t::metadata` of libzmq 4.3.5, which this workspace builds).
/// A copy of a message is kept with each entry: it holds the block, so that another connection cannot
/// get the same one.
#[derive(Default)]
pub struct Peers {
    known: Vec<Peer>,
    next: usize,
}

struct Peer {
    connection: usize,
    address: String,
    _holds: Incoming,
}

impl Peers {
    /// How many connections are remembered; the search goes through all of them.
    const MOST: usize = 16;

    /// The address that the message came from; `none` where there is none.
    pub fn address<'a>(&'a mut self, message: &Incoming, none: &'a str) -> &'a str {
        let connection = message.connection();
        if connection == 0 {
            return none;
        }
        let at = match self.known.iter().position(|peer| peer.connection == connection) {
            Some(at) => at,
            None => self.remember(connection, message, none),
        };
        &self.known[at].address
    }

    fn remember(&mut self, connection: usize, message: &Incoming, none: &str) -> usize {
        let address = message.peer_address().map_or(none.into(), CStr::to_string_lossy);
        // Of a peer over ipc libzmq also tells user, group and process: localhost:0:0:4711.
        let address = if address.starts_with("localhost:") { "localhost" } else { &*address }.to_owned();
        let peer = Peer { connection, address, _holds: message.copy() };
        if self.known.len() < Peers::MOST {
            self.known.push(peer);
            return self.known.len() - 1;
        }
        let at = self.next;
        self.next = (at + 1) % Peers::MOST;
        self.known[at] = peer;
        at
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
        unsafe { zmq_sys::zmq_msg_close(self.message.get()) };
    }
}

// SAFETY: a message may be used by any thread, by one at a time.
unsafe impl Send for Incoming {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twenty peers come and go over tcp on two addresses; each message has the address of its own peer.
    #[test]
    fn each_message_has_the_address_of_its_peer() {
        let context = zmq::Context::new();
        let mut pull = context.socket(zmq::PULL).unwrap();
        pull.set_rcvtimeo(20_000).unwrap();
        pull.bind("tcp://0.0.0.0:*").unwrap();
        let endpoint = pull.get_last_endpoint().unwrap().unwrap();
        let port = endpoint.rsplit_once(':').unwrap().1.to_owned();
        let (mut peers, mut frame) = (Peers::default(), Incoming::new());
        for round in 0..20 {
            // The source address of a connection to 127.0.0.N is chosen by the text before `;`.
            let from = format!("127.0.0.{}", 1 + round % 7);
            let push = context.socket(zmq::PUSH).unwrap();
            push.set_linger(1000).unwrap();
            push.connect(&format!("tcp://{from}:0;127.0.0.1:{port}")).unwrap();
            for _ in 0..50 {
                push.send(vec![b'x'; 100], 0).unwrap();
            }
            for _ in 0..50 {
                frame.receive(&mut pull, 0).unwrap();
                assert_eq!(frame.peer_address().unwrap().to_str(), Ok(&from[..]));
                assert_eq!(peers.address(&frame, "none"), from);
                assert_eq!(frame.bytes(), [b'x'; 100]);
            }
        }
        let inproc = context.socket(zmq::PUSH).unwrap();
        pull.bind("inproc://peers").unwrap();
        inproc.connect("inproc://peers").unwrap();
        inproc.send("y", 0).unwrap();
        frame.receive(&mut pull, 0).unwrap();
        assert_eq!(peers.address(&frame, "none"), "none");
    }
}
