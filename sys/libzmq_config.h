/* What the platform has, for the libzmq 4.3.5 that zeromq-src builds.
 *
 * zeromq-src writes an empty platform.hpp and sets about fifteen -D of its own.
 * The build script forces this header in (-include), and a forced header is
 * read after every -D, so it can add what is missing and undo what does not
 * suit. Names as in libzmq's builds/cmake/platform.hpp.in. */
#ifndef HWGATE_LIBZMQ_CONFIG_H_INCLUDED
#define HWGATE_LIBZMQ_CONFIG_H_INCLUDED

/* CURVE, by our own include/sodium.h */
#define ZMQ_USE_LIBSODIUM 1
#define ZMQ_HAVE_CURVE 1

/* zeromq-src asks for C++11 */
#define ZMQ_HAVE_NOEXCEPT 1

#if defined(_WIN32)

/* libzmq 4.3.5 with wepoll and IPC aborts on Windows (zeromq/libzmq#4730), and
 * for windows-gnu zeromq-src names epoll but leaves wepoll out: select it is,
 * with tcp and inproc. */
#undef ZMQ_IOTHREAD_POLLER_USE_EPOLL
#define ZMQ_IOTHREAD_POLLER_USE_SELECT 1
#undef ZMQ_POLL_BASED_ON_POLL
#define ZMQ_POLL_BASED_ON_SELECT 1
#undef ZMQ_HAVE_IPC
/* Windows 7 */
#undef _WIN32_WINNT
#define _WIN32_WINNT 0x0601
/* sockets one I/O thread can serve; 64 otherwise. libzmq's own build says so too */
#undef FD_SETSIZE
#define FD_SETSIZE 16384

#else

/* timers by the monotonic clock: an NTP step moves no heartbeat or time-out */
#define HAVE_CLOCK_GETTIME 1
/* a forked child does not use its parent's sockets */
#define HAVE_FORK 1
#define HAVE_MKDTEMP 1
#define HAVE_IF_NAMETOINDEX 1
/* tcp://eth0:* */
#define ZMQ_HAVE_IFADDRS 1
/* TCP_KEEPALIVE* are honoured, not only accepted */
#define ZMQ_HAVE_SO_KEEPALIVE 1
#define ZMQ_HAVE_TCP_KEEPCNT 1
#define ZMQ_HAVE_TCP_KEEPINTVL 1

#endif

#if defined(__linux__)

#define ZMQ_HAVE_TCP_KEEPIDLE 1
/* one descriptor a signaller, one write a wake-up, instead of a socket pair */
#define ZMQ_HAVE_EVENTFD 1
/* no descriptor leaks into a program started by another thread */
#define ZMQ_HAVE_EVENTFD_CLOEXEC 1
#define ZMQ_HAVE_SOCK_CLOEXEC 1
#define ZMQ_HAVE_O_CLOEXEC 1
#define ZMQ_IOTHREAD_POLLER_USE_EPOLL_CLOEXEC 1
#define HAVE_ACCEPT4 1
/* ZAP's address frame for ipc: localhost:<uid>:<gid>:<pid> */
#define ZMQ_HAVE_SO_PEERCRED 1
/* options that do nothing until they are set */
#define ZMQ_HAVE_SO_BINDTODEVICE 1
#define ZMQ_HAVE_SO_PRIORITY 1
#define ZMQ_HAVE_BUSY_POLL 1
/* threads are named, and can be pinned */
#define ZMQ_HAVE_PTHREAD_SETNAME_2 1
#define ZMQ_HAVE_PTHREAD_SET_AFFINITY 1
/* no two threads write one cache line of a queue */
#define HAVE_POSIX_MEMALIGN 1
#define ZMQ_CACHELINE_SIZE 64

#elif defined(__APPLE__)

#define ZMQ_HAVE_OSX 1
#define ZMQ_HAVE_TCP_KEEPALIVE 1
#define ZMQ_HAVE_LOCAL_PEERCRED 1

#endif

/* WebSockets are left out: nobody here speaks them, and each transport that is
 * in can be reached by whoever chooses an endpoint. zeromq-src defines
 * ZMQ_HAVE_WS and compiles ws_connecter.cpp regardless, which needs the member
 * `ws_addr` of address_t. So address_t is declared with it, everywhere alike,
 * and everything after takes the transport as absent. (The test compile for
 * -std=c++11 has no libzmq folder to find the file in.) */
#if defined(__cplusplus) && __has_include("address.hpp")
#include "precompiled.hpp"
#include "address.hpp"
#undef ZMQ_HAVE_WS
/* What XPUB sockets drop is counted. */
#include "hwgate_lost.hpp"
#endif
#undef ZMQ_HAVE_WS

#endif
