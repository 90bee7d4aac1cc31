/* The part of libsodium's interface that libzmq 4.3.5 calls, and nothing else.
 *
 * The work is done in Rust (src/crypto.rs). Everything here is a static
 * function that goes through one table of function pointers; Rust registers
 * the table before the first libzmq call that could need it (src/lib.rs), so
 * no symbol of libsodium's name exists in the result and a real libsodium in
 * the same process is not disturbed.
 *
 * The names, lengths and return codes are libsodium's (ISC licence); the code
 * is this project's. */
#ifndef HWGATE_SODIUM_H_INCLUDED
#define HWGATE_SODIUM_H_INCLUDED

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* At 7.4 or later libzmq takes the "easy" forms, which need no padded copies. */
#define SODIUM_LIBRARY_VERSION_MAJOR 26
#define SODIUM_LIBRARY_VERSION_MINOR 0

#define crypto_box_PUBLICKEYBYTES 32U
#define crypto_box_SECRETKEYBYTES 32U
#define crypto_box_BEFORENMBYTES 32U
#define crypto_box_NONCEBYTES 24U
#define crypto_box_ZEROBYTES 32U
#define crypto_box_BOXZEROBYTES 16U
#define crypto_box_MACBYTES 16U
#define crypto_secretbox_KEYBYTES 32U
#define crypto_secretbox_NONCEBYTES 24U
#define crypto_secretbox_ZEROBYTES 32U
#define crypto_secretbox_BOXZEROBYTES 16U

/* Must match `Table` in src/crypto.rs. Lengths are size_t on both sides. */
struct hwgate_sodium_table
{
    /* 0, or -1 if the system gives no random bytes */
    int (*init) (void);
    void (*random) (uint8_t *out, size_t len);
    int (*keypair) (uint8_t *public_key, uint8_t *secret_key);
    void (*public_key) (uint8_t *public_key, const uint8_t *secret_key);
    /* -1 if the peer's key gives an all-zero secret */
    int (*shared_key) (uint8_t *key,
                       const uint8_t *public_key,
                       const uint8_t *secret_key);
    /* out: 16 bytes of tag, then len bytes; in and out may overlap */
    int (*seal) (uint8_t *out,
                 const uint8_t *in,
                 size_t len,
                 const uint8_t *nonce,
                 const uint8_t *key);
    /* in: 16 bytes of tag, then len - 16; in and out may overlap */
    int (*open) (uint8_t *out,
                 const uint8_t *in,
                 size_t len,
                 const uint8_t *nonce,
                 const uint8_t *key);
    void *(*alloc) (size_t len);
    void (*free) (void *memory);
    void (*wipe) (uint8_t *memory, size_t len);
};

/* A DLL exports only what it is told to. */
#if defined(__GNUC__) && !defined(_WIN32)
#define HWGATE_HIDDEN __attribute__ ((visibility ("hidden")))
#else
#define HWGATE_HIDDEN
#endif

HWGATE_HIDDEN void
hwgate_sodium_register (const struct hwgate_sodium_table *table);
/* The registered table; ends the process with a message if there is none. */
HWGATE_HIDDEN const struct hwgate_sodium_table *hwgate_sodium (void);

static inline int sodium_init (void)
{
    return hwgate_sodium ()->init ();
}

static inline void randombytes (unsigned char *out, unsigned long long len)
{
    hwgate_sodium ()->random (out, (size_t) len);
}

static inline void randombytes_close (void)
{
}

static inline void *sodium_allocarray (size_t count, size_t size)
{
    if (size != 0 && count > SIZE_MAX / size)
        return NULL;
    return hwgate_sodium ()->alloc (count * size);
}

static inline void sodium_free (void *memory)
{
    hwgate_sodium ()->free (memory);
}

static inline int crypto_box_keypair (unsigned char *pk, unsigned char *sk)
{
    return hwgate_sodium ()->keypair (pk, sk);
}

static inline int crypto_scalarmult_base (unsigned char *q,
                                          const unsigned char *n)
{
    hwgate_sodium ()->public_key (q, n);
    return 0;
}

static inline int crypto_box_beforenm (unsigned char *k,
                                       const unsigned char *pk,
                                       const unsigned char *sk)
{
    return hwgate_sodium ()->shared_key (k, pk, sk);
}

static inline int crypto_box_easy_afternm (unsigned char *c,
                                           const unsigned char *m,
                                           unsigned long long mlen,
                                           const unsigned char *n,
                                           const unsigned char *k)
{
    return hwgate_sodium ()->seal (c, m, (size_t) mlen, n, k);
}

static inline int crypto_box_open_easy_afternm (unsigned char *m,
                                                const unsigned char *c,
                                                unsigned long long clen,
                                                const unsigned char *n,
                                                const unsigned char *k)
{
    if (clen < crypto_box_MACBYTES)
        return -1;
    return hwgate_sodium ()->open (m, c, (size_t) clen, n, k);
}

/* The older forms carry 32 zero bytes before the text, 16 before the box. */
static inline int crypto_secretbox (unsigned char *c,
                                    const unsigned char *m,
                                    unsigned long long mlen,
                                    const unsigned char *n,
                                    const unsigned char *k)
{
    int rc;
    if (mlen < crypto_secretbox_ZEROBYTES)
        return -1;
    rc = hwgate_sodium ()->seal (c + crypto_secretbox_BOXZEROBYTES,
                                 m + crypto_secretbox_ZEROBYTES,
                                 (size_t) mlen - crypto_secretbox_ZEROBYTES, n,
                                 k);
    memset (c, 0, crypto_secretbox_BOXZEROBYTES);
    return rc;
}

static inline int crypto_secretbox_open (unsigned char *m,
                                         const unsigned char *c,
                                         unsigned long long clen,
                                         const unsigned char *n,
                                         const unsigned char *k)
{
    int rc;
    if (clen < crypto_secretbox_ZEROBYTES)
        return -1;
    rc = hwgate_sodium ()->open (
      m + crypto_secretbox_ZEROBYTES, c + crypto_secretbox_BOXZEROBYTES,
      (size_t) clen - crypto_secretbox_BOXZEROBYTES, n, k);
    if (rc == 0)
        memset (m, 0, crypto_secretbox_ZEROBYTES);
    return rc;
}

static inline int crypto_box_afternm (unsigned char *c,
                                      const unsigned char *m,
                                      unsigned long long mlen,
                                      const unsigned char *n,
                                      const unsigned char *k)
{
    return crypto_secretbox (c, m, mlen, n, k);
}

static inline int crypto_box_open_afternm (unsigned char *m,
                                           const unsigned char *c,
                                           unsigned long long clen,
                                           const unsigned char *n,
                                           const unsigned char *k)
{
    return crypto_secretbox_open (m, c, clen, n, k);
}

static inline int crypto_box (unsigned char *c,
                              const unsigned char *m,
                              unsigned long long mlen,
                              const unsigned char *n,
                              const unsigned char *pk,
                              const unsigned char *sk)
{
    uint8_t k[crypto_box_BEFORENMBYTES];
    int rc = crypto_box_beforenm (k, pk, sk);
    if (rc == 0)
        rc = crypto_box_afternm (c, m, mlen, n, k);
    hwgate_sodium ()->wipe (k, sizeof k);
    return rc;
}

static inline int crypto_box_open (unsigned char *m,
                                   const unsigned char *c,
                                   unsigned long long clen,
                                   const unsigned char *n,
                                   const unsigned char *pk,
                                   const unsigned char *sk)
{
    uint8_t k[crypto_box_BEFORENMBYTES];
    int rc = crypto_box_beforenm (k, pk, sk);
    if (rc == 0)
        rc = crypto_box_open_afternm (m, c, clen, n, k);
    hwgate_sodium ()->wipe (k, sizeof k);
    return rc;
}

#ifdef __cplusplus
}
#endif

#endif
