//! The cryptography of CURVE: X25519 and XSalsa20-Poly1305, as NaCl's `crypto_box` combines them.
//!
//! [`register`] hands it to the C side (`include/sodium.h`). Nothing here branches or indexes by a
//! secret: that is the promise of the crates used, and of the code between them.

use crate::xsalsa::{FIRST, Stream};
use curve25519_dalek::MontgomeryPoint;
use poly1305::Poly1305;
use poly1305::universal_hash::{KeyInit, UniversalHash};
use salsa20::cipher::consts::U10;
use salsa20::hsalsa;
use std::alloc::Layout;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, Zeroizing};

const KEY: usize = 32;
const NONCE: usize = 24;
const TAG: usize = 16;

/// X25519 then HSalsa20: the key both ends of a box share. `None` if the peer's key is one of the
/// few that give every partner the same secret, zero.
fn shared_key(public: &[u8; KEY], secret: &[u8; KEY]) -> Option<Zeroizing<[u8; KEY]>> {
    let mut point = MontgomeryPoint(*public).mul_clamped(*secret);
    let point_bytes = Zeroizing::new(point.to_bytes());
    point.zeroize();
    if bool::from(point_bytes.ct_eq(&[0; KEY])) {
        return None;
    }
    let mut hashed = hsalsa::<U10>(&(*point_bytes).into(), &[0; 16].into());
    let key = Zeroizing::new(hashed.into());
    hashed.zeroize();
    Some(key)
}

fn public_key(secret: &[u8; KEY]) -> [u8; KEY] {
    MontgomeryPoint::mul_base_clamped(*secret).to_bytes()
}

/// A message's key stream, and the authenticator keyed with its first 32 bytes.
fn start(nonce: &[u8; NONCE], key: &[u8; KEY]) -> (Cipher, Poly1305) {
    let (stream, first) = Stream::new(key, nonce);
    let (authenticator_key, _) = first.split_first_chunk::<KEY>().expect("FIRST is more than KEY");
    let authenticator = Poly1305::new(authenticator_key.into());
    (Cipher { stream, first }, authenticator)
}

struct Cipher {
    stream: Stream,
    first: Zeroizing<[u8; FIRST]>,
}

impl Cipher {
    fn apply(self, text: &mut [u8]) {
        let (start, rest) = text.split_at_mut(text.len().min(FIRST - KEY));
        for (byte, stream) in start.iter_mut().zip(&self.first[KEY..]) {
            *byte ^= stream;
        }
        if !rest.is_empty() {
            self.stream.apply(rest);
        }
    }
}

fn tag(mut authenticator: Poly1305, text: &[u8]) -> [u8; TAG] {
    let (blocks, rest) = poly1305::Block::slice_as_chunks(text);
    authenticator.update(blocks);
    authenticator.compute_unpadded(rest).into()
}

/// Encrypts in place and returns the tag.
fn seal(text: &mut [u8], nonce: &[u8; NONCE], key: &[u8; KEY]) -> [u8; TAG] {
    let (cipher, authenticator) = start(nonce, key);
    cipher.apply(text);
    tag(authenticator, text)
}

/// Decrypts in place, or says false and leaves the bytes alone.
fn open(text: &mut [u8], expected: &[u8; TAG], nonce: &[u8; NONCE], key: &[u8; KEY]) -> bool {
    let (cipher, authenticator) = start(nonce, key);
    let good = bool::from(tag(authenticator, text).ct_eq(expected));
    if good {
        cipher.apply(text);
    }
    good
}

// What follows is the C interface.

/// `struct hwgate_sodium_table` of `include/sodium.h`, field by field.
#[repr(C)]
struct Table {
    init: extern "C" fn() -> c_int,
    random: unsafe extern "C" fn(*mut u8, usize),
    keypair: unsafe extern "C" fn(*mut u8, *mut u8) -> c_int,
    public_key: unsafe extern "C" fn(*mut u8, *const u8),
    shared_key: unsafe extern "C" fn(*mut u8, *const u8, *const u8) -> c_int,
    seal: unsafe extern "C" fn(*mut u8, *const u8, usize, *const u8, *const u8) -> c_int,
    open: unsafe extern "C" fn(*mut u8, *const u8, usize, *const u8, *const u8) -> c_int,
    alloc: extern "C" fn(usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    wipe: unsafe extern "C" fn(*mut u8, usize),
}

static TABLE: Table = Table {
    init: c_init,
    random: c_random,
    keypair: c_keypair,
    public_key: c_public_key,
    shared_key: c_shared_key,
    seal: c_seal,
    open: c_open,
    alloc: c_alloc,
    free: c_free,
    wipe: c_wipe,
};

unsafe extern "C" {
    fn hwgate_sodium_register(table: *const Table);
}

/// Gives libzmq its cryptography. Cheap when it is done already; every function of this crate that
/// can be the first to need it calls this.
pub(crate) fn register() {
    static ONCE: Once = Once::new();
    // SAFETY: the table is static, its layout is the C struct's, and `Once` orders this write before
    // whatever the callers do next, so before the threads that libzmq starts.
    ONCE.call_once(|| unsafe { hwgate_sodium_register(&raw const TABLE) });
}

/// No panic leaves Rust: it becomes the failure code. (None is known to be possible.)
fn guard(work: impl FnOnce() -> c_int) -> c_int {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(-1)
}

/// Where libsodium would end the process as well: to go on without random keys is no choice.
fn without_random() -> ! {
    eprintln!("zmq-sys: the system gives no random bytes");
    std::process::abort()
}

extern "C" fn c_init() -> c_int {
    guard(|| if getrandom::fill(&mut [0; 1]).is_ok() { 0 } else { -1 })
}

/// # Safety
/// `out` has room for `len` bytes.
unsafe extern "C" fn c_random(out: *mut u8, len: usize) {
    let done = guard(|| {
        if len == 0 {
            return 0;
        }
        // SAFETY: the caller's promise; zeroed first, so that the slice is of initialised bytes.
        let bytes = unsafe {
            out.write_bytes(0, len);
            std::slice::from_raw_parts_mut(out, len)
        };
        if getrandom::fill(bytes).is_ok() { 0 } else { -1 }
    });
    if done != 0 {
        without_random();
    }
}

/// # Safety
/// Both have room for 32 bytes.
unsafe extern "C" fn c_keypair(public: *mut u8, secret: *mut u8) -> c_int {
    guard(|| {
        let mut bytes = Zeroizing::new([0; KEY]);
        if getrandom::fill(&mut *bytes).is_err() {
            return -1;
        }
        // SAFETY: the caller's promise; arrays of bytes have no alignment to keep.
        unsafe {
            public.cast::<[u8; KEY]>().write(public_key(&bytes));
            secret.cast::<[u8; KEY]>().write(*bytes);
        }
        0
    })
}

/// # Safety
/// Both are 32 bytes.
unsafe extern "C" fn c_public_key(public: *mut u8, secret: *const u8) {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let secret = Zeroizing::new(secret.cast::<[u8; KEY]>().read());
            public.cast::<[u8; KEY]>().write(public_key(&secret));
        }
        0
    });
}

/// # Safety
/// All are 32 bytes.
unsafe extern "C" fn c_shared_key(key: *mut u8, public: *const u8, secret: *const u8) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let secret = Zeroizing::new(secret.cast::<[u8; KEY]>().read());
            let Some(shared) = shared_key(&public.cast::<[u8; KEY]>().read(), &secret) else {
                return -1;
            };
            key.cast::<[u8; KEY]>().write(*shared);
        }
        0
    })
}

/// # Safety
/// `out` has room for `len` + 16 bytes, `input` is `len` bytes, `nonce` 24, `key` 32. `out` and
/// `input` may overlap.
unsafe extern "C" fn c_seal(
    out: *mut u8,
    input: *const u8,
    len: usize,
    nonce: *const u8,
    key: *const u8,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise. `copy` is a memmove, and `input` is not touched after it,
        // so the slice is the only way to those bytes while it lives.
        unsafe {
            let text = out.add(TAG);
            std::ptr::copy(input, text, len);
            let text = std::slice::from_raw_parts_mut(text, len);
            let tag = seal(text, &*nonce.cast(), &*key.cast());
            out.cast::<[u8; TAG]>().write(tag);
        }
        0
    })
}

/// # Safety
/// `out` has room for `len` - 16 bytes, `input` is `len` bytes (at least 16), `nonce` 24, `key` 32.
/// `out` and `input` may overlap.
unsafe extern "C" fn c_open(
    out: *mut u8,
    input: *const u8,
    len: usize,
    nonce: *const u8,
    key: *const u8,
) -> c_int {
    guard(|| {
        let Some(len) = len.checked_sub(TAG) else {
            return -1;
        };
        // SAFETY: the caller's promise; the tag is taken before the text may move over it.
        let good = unsafe {
            let tag = input.cast::<[u8; TAG]>().read();
            std::ptr::copy(input.add(TAG), out, len);
            let text = std::slice::from_raw_parts_mut(out, len);
            open(text, &tag, &*nonce.cast(), &*key.cast())
        };
        if good { 0 } else { -1 }
    })
}

// libzmq keeps the plain text of a handshake in such memory. Its length stands before it, to be
// wiped by. Unlike libsodium's it has no guard pages and is not locked into RAM.
const HEADER: usize = 16;

fn layout(len: usize) -> Option<Layout> {
    Layout::from_size_align(len.checked_add(HEADER)?, HEADER).ok()
}

extern "C" fn c_alloc(len: usize) -> *mut c_void {
    let Some(layout) = layout(len) else {
        return std::ptr::null_mut();
    };
    // SAFETY: the layout's size is at least HEADER, so not zero; it is aligned for a usize, and
    // HEADER bytes on is inside or just past the end.
    unsafe {
        let block = std::alloc::alloc_zeroed(layout);
        if block.is_null() {
            return block.cast();
        }
        block.cast::<usize>().write(len);
        block.add(HEADER).cast()
    }
}

/// # Safety
/// `memory` is null or came from [`c_alloc`] and is given back once.
unsafe extern "C" fn c_free(memory: *mut c_void) {
    if memory.is_null() {
        return;
    }
    // SAFETY: the caller's promise: HEADER bytes before lies the length that c_alloc wrote, and the
    // layout made of it is the one that was allocated.
    unsafe {
        let block = memory.cast::<u8>().sub(HEADER);
        let len = block.cast::<usize>().read();
        c_wipe(memory.cast(), len);
        if let Some(layout) = layout(len) {
            std::alloc::dealloc(block, layout);
        }
    }
}

/// # Safety
/// `memory` is `len` initialised bytes.
unsafe extern "C" fn c_wipe(memory: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(memory, len) }.zeroize();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex<const N: usize>(text: &str) -> [u8; N] {
        std::array::from_fn(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
    }

    const NONCE_BYTES: &str = "69696ee955b62b73cd62bda875fc73d68219e0036b7a0b37";

    /// NaCl's own: crypto_box of tests/box.c, with the two keys of RFC 7748, 6.1.
    #[test]
    fn as_nacl() {
        let alice = hex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a");
        let bob = hex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb");
        let alice_public = hex("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a");
        let bob_public = hex("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f");
        assert_eq!(public_key(&alice), alice_public);
        assert_eq!(public_key(&bob), bob_public);
        let key = shared_key(&bob_public, &alice).unwrap();
        assert_eq!(*key, hex("1b27556473e985d462cd51197a9a46c76009549eac6474f206c4ee0844f68389"));
        assert_eq!(key, shared_key(&alice_public, &bob).unwrap());

        let text: [u8; 131] = hex("be075fc53c81f2d5cf141316ebeb0c7b5228c52a4c62cbd44b66849b64244ffc\
             e5ecbaaf33bd751a1ac728d45e6c61296cdc3c01233561f41db66cce314adb31\
             0e3be8250c46f06dceea3a7fa1348057e2f6556ad6b1318a024a838f21af1fde\
             048977eb48f59ffd4924ca1c60902e52f0a089bc76897040e082f93776384864\
             5e0705");
        let sealed: [u8; 131] = hex("8e993b9f48681273c29650ba32fc76ce48332ea7164d96a4476fb8c531a1186a\
             c0dfc17c98dce87b4da7f011ec48c97271d2c20f9b928fe2270d6fb863d51738\
             b48eeee314a7cc8ab932164548e526ae90224368517acfeabd6bb3732bc0e9da\
             99832b61ca01b6de56244a9e88d5f9b37973f622a43d14a6599b1f654cb45a74\
             e355a5");
        let mut bytes = text;
        let tag = seal(&mut bytes, &hex(NONCE_BYTES), &key);
        assert_eq!(bytes, sealed);
        assert_eq!(tag, hex("f3ffc7703f9400e52a7dfb4b3d3305d9"));
        assert!(open(&mut bytes, &tag, &hex(NONCE_BYTES), &key));
        assert_eq!(bytes, text);
    }

    /// Through the C interface, in place as libzmq opens messages, at every length around the blocks.
    #[test]
    fn every_length_in_place() {
        let (nonce, key) = ([3; NONCE], [5; KEY]);
        for len in 0..300 {
            let text: Vec<u8> = (0..len).map(|i| (i * 31 % 251) as u8).collect();
            let mut sealed = vec![0; TAG + len];
            let mut opened = vec![0; TAG + len];
            // SAFETY: the lengths are those of the buffers.
            unsafe {
                assert_eq!(c_seal(sealed.as_mut_ptr(), text.as_ptr(), len, nonce.as_ptr(), key.as_ptr()), 0);
                opened.copy_from_slice(&sealed);
                let at = opened.as_mut_ptr();
                assert_eq!(c_open(at, at, TAG + len, nonce.as_ptr(), key.as_ptr()), 0);
            }
            assert_eq!(opened[..len], text);
            // In place the other way round, as libsodium allows.
            let mut overlapping = text.clone();
            overlapping.resize(TAG + len, 0);
            let at = overlapping.as_mut_ptr();
            // SAFETY: as above.
            unsafe { assert_eq!(c_seal(at, at, len, nonce.as_ptr(), key.as_ptr()), 0) };
            assert_eq!(overlapping, sealed);
        }
    }

    #[test]
    fn no_changed_bit_is_accepted() {
        let (nonce, key) = ([1; NONCE], [2; KEY]);
        let mut text = *b"forty bytes, which is two blocks and 8 b";
        let tag = seal(&mut text, &nonce, &key);
        for bit in 0..8 * text.len() {
            let mut changed = text;
            changed[bit / 8] ^= 1 << (bit % 8);
            let before = changed;
            assert!(!open(&mut changed, &tag, &nonce, &key));
            assert_eq!(changed, before, "nothing is decrypted");
        }
        for bit in 0..8 * TAG {
            let mut changed = tag;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(!open(&mut text.clone(), &changed, &nonce, &key));
        }
        assert!(!open(&mut text.clone(), &tag, &[9; NONCE], &key));
        assert!(!open(&mut text.clone(), &tag, &nonce, &[9; KEY]));
        assert!(!open(&mut text[..39].to_vec(), &tag, &nonce, &key));
    }

    #[test]
    fn a_box_too_short_for_its_tag_is_refused() {
        let bytes = [0; TAG];
        for len in 0..TAG {
            let mut out = [0; TAG];
            // SAFETY: the lengths are below the buffers'; nonce and key are long enough.
            let rc = unsafe {
                c_open(out.as_mut_ptr(), bytes.as_ptr(), len, [0; NONCE].as_ptr(), [0; KEY].as_ptr())
            };
            assert_eq!(rc, -1);
        }
    }

    /// Points of low order, from libsodium's list: whoever sends one would know the secret.
    #[test]
    fn keys_of_no_use_are_refused() {
        for public in [
            hex("0000000000000000000000000000000000000000000000000000000000000000"),
            hex("0100000000000000000000000000000000000000000000000000000000000000"),
            hex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
            hex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
            hex("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
            hex("edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
            hex("eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
        ] {
            assert_eq!(shared_key(&public, &[7; KEY]), None);
            let mut key = [0; KEY];
            // SAFETY: all are 32 bytes.
            assert_eq!(unsafe { c_shared_key(key.as_mut_ptr(), public.as_ptr(), [7; KEY].as_ptr()) }, -1);
        }
    }

    #[test]
    fn memory_is_empty_and_too_much_is_refused() {
        for len in [0, 1, 15, 16, 17, 4096] {
            let memory = c_alloc(len).cast::<u8>();
            assert_eq!(memory as usize % 16, 0);
            // SAFETY: `len` bytes were allocated and are given back once.
            unsafe {
                assert!(std::slice::from_raw_parts(memory, len).iter().all(|byte| *byte == 0));
                memory.write_bytes(0xff, len);
                c_free(memory.cast());
            }
        }
        assert!(c_alloc(usize::MAX).is_null());
        assert!(c_alloc(isize::MAX as usize).is_null());
        // SAFETY: null is allowed.
        unsafe { c_free(std::ptr::null_mut()) };
    }

    #[test]
    fn random_bytes_differ() {
        let mut bytes = [[0; 64]; 2];
        // SAFETY: 64 bytes each; none are asked for the third time.
        unsafe {
            c_random(bytes[0].as_mut_ptr(), 64);
            c_random(bytes[1].as_mut_ptr(), 64);
            c_random(std::ptr::null_mut(), 0);
        }
        assert_ne!(bytes[0], bytes[1]);
        assert!(bytes[0].iter().any(|byte| *byte != 0));
    }

    #[test]
    fn a_panic_becomes_the_failure_code() {
        assert_eq!(guard(|| panic!("expected in this test")), -1);
    }
}
