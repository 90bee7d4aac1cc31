#![doc = include_str!("../README.md")]
// The items are libzmq's own, described in its manual.
#![allow(missing_docs)]

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use crate::unix::RawFd;

#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub use crate::windows::RawFd;

pub mod errno;

mod crypto;
#[allow(non_camel_case_types, dead_code, clippy::unreadable_literal)]
mod ffi;
mod xsalsa;

use std::ffi::{c_char, c_int, c_void};

// What zmq-sys 0.12.0 exports, without the three functions below, and a few constants more.
pub use crate::ffi::{
    ZMQ_AFFINITY, ZMQ_BACKLOG, ZMQ_BINDTODEVICE, ZMQ_BLOCKY, ZMQ_CONFLATE, ZMQ_CONNECT_ROUTING_ID,
    ZMQ_CONNECT_TIMEOUT, ZMQ_CURVE, ZMQ_CURVE_PUBLICKEY, ZMQ_CURVE_SECRETKEY, ZMQ_CURVE_SERVER,
    ZMQ_CURVE_SERVERKEY, ZMQ_DEALER, ZMQ_DONTWAIT, ZMQ_EVENT_ACCEPT_FAILED, ZMQ_EVENT_ACCEPTED,
    ZMQ_EVENT_ALL, ZMQ_EVENT_BIND_FAILED, ZMQ_EVENT_CLOSE_FAILED, ZMQ_EVENT_CLOSED,
    ZMQ_EVENT_CONNECT_DELAYED, ZMQ_EVENT_CONNECT_RETRIED, ZMQ_EVENT_CONNECTED, ZMQ_EVENT_DISCONNECTED,
    ZMQ_EVENT_HANDSHAKE_FAILED_AUTH, ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL,
    ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL, ZMQ_EVENT_HANDSHAKE_SUCCEEDED, ZMQ_EVENT_LISTENING,
    ZMQ_EVENT_MONITOR_STOPPED, ZMQ_EVENTS, ZMQ_FD, ZMQ_GROUP_MAX_LENGTH, ZMQ_GSSAPI, ZMQ_GSSAPI_PLAINTEXT,
    ZMQ_GSSAPI_PRINCIPAL, ZMQ_GSSAPI_PRINCIPAL_NAMETYPE, ZMQ_GSSAPI_SERVER, ZMQ_GSSAPI_SERVICE_PRINCIPAL,
    ZMQ_GSSAPI_SERVICE_PRINCIPAL_NAMETYPE, ZMQ_HANDSHAKE_IVL, ZMQ_HAUSNUMERO, ZMQ_HEARTBEAT_IVL,
    ZMQ_HEARTBEAT_TIMEOUT, ZMQ_HEARTBEAT_TTL, ZMQ_IMMEDIATE, ZMQ_INVERT_MATCHING, ZMQ_IO_THREADS,
    ZMQ_IO_THREADS_DFLT, ZMQ_IPC_FILTER_GID, ZMQ_IPC_FILTER_PID, ZMQ_IPC_FILTER_UID, ZMQ_IPV6,
    ZMQ_LAST_ENDPOINT, ZMQ_LINGER, ZMQ_MAX_MSGSZ, ZMQ_MAX_SOCKETS, ZMQ_MAX_SOCKETS_DFLT, ZMQ_MAXMSGSIZE,
    ZMQ_MECHANISM, ZMQ_MORE, ZMQ_MSG_T_SIZE, ZMQ_MULTICAST_HOPS, ZMQ_MULTICAST_MAXTPDU, ZMQ_NULL, ZMQ_PAIR,
    ZMQ_PLAIN, ZMQ_PLAIN_PASSWORD, ZMQ_PLAIN_SERVER, ZMQ_PLAIN_USERNAME, ZMQ_POLLERR, ZMQ_POLLIN,
    ZMQ_POLLITEMS_DFLT, ZMQ_POLLOUT, ZMQ_POLLPRI, ZMQ_PROBE_ROUTER, ZMQ_PROTOCOL_ERROR_WS_UNSPECIFIED,
    ZMQ_PROTOCOL_ERROR_ZAP_BAD_REQUEST_ID, ZMQ_PROTOCOL_ERROR_ZAP_BAD_VERSION,
    ZMQ_PROTOCOL_ERROR_ZAP_INVALID_METADATA, ZMQ_PROTOCOL_ERROR_ZAP_INVALID_STATUS_CODE,
    ZMQ_PROTOCOL_ERROR_ZAP_MALFORMED_REPLY, ZMQ_PROTOCOL_ERROR_ZAP_UNSPECIFIED,
    ZMQ_PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC, ZMQ_PROTOCOL_ERROR_ZMTP_INVALID_METADATA,
    ZMQ_PROTOCOL_ERROR_ZMTP_INVALID_SEQUENCE, ZMQ_PROTOCOL_ERROR_ZMTP_KEY_EXCHANGE,
    ZMQ_PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_ERROR, ZMQ_PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_HELLO,
    ZMQ_PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_INITIATE, ZMQ_PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_MESSAGE,
    ZMQ_PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_READY, ZMQ_PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_UNSPECIFIED,
    ZMQ_PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_WELCOME, ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH,
    ZMQ_PROTOCOL_ERROR_ZMTP_UNEXPECTED_COMMAND, ZMQ_PROTOCOL_ERROR_ZMTP_UNSPECIFIED, ZMQ_PUB, ZMQ_PULL,
    ZMQ_PUSH, ZMQ_RATE, ZMQ_RCVBUF, ZMQ_RCVHWM, ZMQ_RCVMORE, ZMQ_RCVTIMEO, ZMQ_RECONNECT_IVL,
    ZMQ_RECONNECT_IVL_MAX, ZMQ_RECOVERY_IVL, ZMQ_REP, ZMQ_REQ, ZMQ_REQ_CORRELATE, ZMQ_REQ_RELAXED,
    ZMQ_ROUTER, ZMQ_ROUTER_BEHAVIOR, ZMQ_ROUTER_HANDOVER, ZMQ_ROUTER_MANDATORY, ZMQ_ROUTER_RAW,
    ZMQ_ROUTING_ID, ZMQ_SHARED, ZMQ_SNDBUF, ZMQ_SNDHWM, ZMQ_SNDMORE, ZMQ_SNDTIMEO, ZMQ_SOCKET_LIMIT,
    ZMQ_SOCKS_PROXY, ZMQ_SRCFD, ZMQ_STREAM, ZMQ_STREAM_NOTIFY, ZMQ_SUB, ZMQ_SUBSCRIBE, ZMQ_TCP_KEEPALIVE,
    ZMQ_TCP_KEEPALIVE_CNT, ZMQ_TCP_KEEPALIVE_IDLE, ZMQ_TCP_KEEPALIVE_INTVL, ZMQ_TCP_MAXRT,
    ZMQ_THREAD_AFFINITY_CPU_ADD, ZMQ_THREAD_AFFINITY_CPU_REMOVE, ZMQ_THREAD_NAME_PREFIX, ZMQ_THREAD_PRIORITY,
    ZMQ_THREAD_PRIORITY_DFLT, ZMQ_THREAD_SAFE, ZMQ_THREAD_SCHED_POLICY, ZMQ_THREAD_SCHED_POLICY_DFLT,
    ZMQ_TOS, ZMQ_TYPE, ZMQ_UNSUBSCRIBE, ZMQ_USE_FD, ZMQ_VERSION_MAJOR, ZMQ_VERSION_MINOR, ZMQ_VERSION_PATCH,
    ZMQ_VMCI_BUFFER_MAX_SIZE, ZMQ_VMCI_BUFFER_MIN_SIZE, ZMQ_VMCI_BUFFER_SIZE, ZMQ_VMCI_CONNECT_TIMEOUT,
    ZMQ_XPUB, ZMQ_XPUB_MANUAL, ZMQ_XPUB_NODROP, ZMQ_XPUB_VERBOSE, ZMQ_XPUB_VERBOSER, ZMQ_XPUB_WELCOME_MSG,
    ZMQ_XSUB, ZMQ_ZAP_DOMAIN, zmq_bind, zmq_close, zmq_connect, zmq_ctx_get, zmq_ctx_set, zmq_ctx_shutdown,
    zmq_ctx_term, zmq_device, zmq_disconnect, zmq_errno, zmq_free_fn, zmq_getsockopt, zmq_has, zmq_msg_close,
    zmq_msg_copy, zmq_msg_data, zmq_msg_get, zmq_msg_gets, zmq_msg_init, zmq_msg_init_data,
    zmq_msg_init_size, zmq_msg_more, zmq_msg_move, zmq_msg_recv, zmq_msg_send, zmq_msg_set, zmq_msg_size,
    zmq_msg_t, zmq_poll, zmq_pollitem_t, zmq_proxy, zmq_proxy_steerable, zmq_recv, zmq_recviov, zmq_recvmsg,
    zmq_send, zmq_send_const, zmq_sendiov, zmq_sendmsg, zmq_setsockopt, zmq_socket, zmq_socket_monitor,
    zmq_strerror, zmq_unbind, zmq_version, zmq_z85_decode, zmq_z85_encode,
};

// The functions below can be the first to need random bytes or keys: zmq_ctx_new does through
// random_open -> sodium_init, and every other way to them goes through a context.

/// libzmq's `zmq_ctx_new`; gives libzmq its cryptography first.
///
/// # Safety
/// As the C function: none but to end the context by `zmq_ctx_term`.
pub unsafe extern "C" fn zmq_ctx_new() -> *mut c_void {
    crypto::register();
    // SAFETY: it takes nothing.
    unsafe { ffi::zmq_ctx_new() }
}

/// libzmq's `zmq_curve_keypair`; gives libzmq its cryptography first.
///
/// # Safety
/// Both point to room for 41 characters.
pub unsafe extern "C" fn zmq_curve_keypair(
    z85_public_key_: *mut c_char,
    z85_secret_key_: *mut c_char,
) -> c_int {
    crypto::register();
    // SAFETY: the caller's promise.
    unsafe { ffi::zmq_curve_keypair(z85_public_key_, z85_secret_key_) }
}

/// libzmq's `zmq_curve_public`; gives libzmq its cryptography first.
///
/// # Safety
/// `z85_public_key_` points to room for 41 characters, `z85_secret_key_` to a string.
pub unsafe extern "C" fn zmq_curve_public(
    z85_public_key_: *mut c_char,
    z85_secret_key_: *const c_char,
) -> c_int {
    crypto::register();
    // SAFETY: the caller's promise.
    unsafe { ffi::zmq_curve_public(z85_public_key_, z85_secret_key_) }
}

/// What the sends of one thread have lost by XPUB and PUB sockets: see `include/hwgate_lost.h`.
#[repr(C)]
#[allow(non_camel_case_types)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct hwgate_zmq_lost {
    pub messages: u64,
    pub deliveries: u64,
}

unsafe extern "C" {
    /// The sums of the calling thread since it began.
    pub safe fn hwgate_zmq_get_lost() -> hwgate_zmq_lost;
}
