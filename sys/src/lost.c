/* Holds the sums of hwgate_lost.h. libzmq sends in the thread that calls it,
 * so a thread's own sums tell it about its own sends without any lock. */
#include "hwgate_lost.h"

#if defined(_MSC_VER)
static __declspec(thread) struct hwgate_zmq_lost lost;
#else
static __thread struct hwgate_zmq_lost lost;
#endif

void hwgate_zmq_add_lost (size_t deliveries)
{
    lost.messages++;
    lost.deliveries += deliveries;
}

struct hwgate_zmq_lost hwgate_zmq_get_lost (void)
{
    return lost;
}
