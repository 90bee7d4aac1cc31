/* Holds the table that include/sodium.h goes through. */
#include "sodium.h"

#include <stdio.h>
#include <stdlib.h>

static const struct hwgate_sodium_table *registered;

void hwgate_sodium_register (const struct hwgate_sodium_table *table)
{
    registered = table;
}

const struct hwgate_sodium_table *hwgate_sodium (void)
{
    if (registered == NULL) {
        fputs ("zmq-sys: libzmq was entered by its C name; call the functions "
               "of the Rust crate zmq-sys, which register the cryptography\n",
               stderr);
        abort ();
    }
    return registered;
}
