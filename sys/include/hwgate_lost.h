/* What the calling thread's sends have lost; see hwgate_lost.hpp. */
#ifndef HWGATE_LOST_H_INCLUDED
#define HWGATE_LOST_H_INCLUDED

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hwgate_zmq_lost
{
    /* messages that at least one subscriber did not get */
    uint64_t messages;
    /* subscribers that did not get one, summed over the messages */
    uint64_t deliveries;
};

/* One message was not given to so many subscribers. */
void hwgate_zmq_add_lost (size_t deliveries);

/* Sums of the calling thread since it began. */
struct hwgate_zmq_lost hwgate_zmq_get_lost (void);

#ifdef __cplusplus
}
#endif

#endif
