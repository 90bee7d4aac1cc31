/* Counts what an XPUB or PUB socket does not give to a subscriber because its
 * queue is full. libzmq drops such messages in silence: with ZMQ_XPUB_NODROP
 * off it says nothing at all, and with it on it passes over a subscriber that
 * has lost one message until that has read half of its queue.
 *
 * libzmq_config.h forces this header in: xpub_t (from which pub_t derives) is
 * declared once, with counting_dist_t where its header says dist_t. No source
 * of libzmq is changed, and nothing is counted where nothing is lost. */
#ifndef HWGATE_LOST_HPP_INCLUDED
#define HWGATE_LOST_HPP_INCLUDED

#include "hwgate_lost.h"

#include "precompiled.hpp"

#include <algorithm>
#include <vector>

/* All that xpub.hpp includes, so that the name is changed in xpub_t alone. */
#include <deque>
#include "array.hpp"
#include "dist.hpp"
#include "msg.hpp"
#include "mtrie.hpp"
#include "pipe.hpp"
#include "session_base.hpp"
#include "socket_base.hpp"

namespace zmq
{
class counting_dist_t : public dist_t
{
  public:
    /* Called for each subscription that matches the next message. A pipe that
     * is full now is full when the message is sent, in the same call; one
     * that lost a message stays full until its reader has made room. */
    void match (pipe_t *pipe_)
    {
        if (!pipe_->check_hwm ()
            && std::find (_full.begin (), _full.end (), pipe_) == _full.end ())
            _full.push_back (pipe_);
        dist_t::match (pipe_);
    }

    /* Called before a message and after it. */
    void unmatch ()
    {
        _full.clear ();
        dist_t::unmatch ();
    }

    /* Called for each frame, only if the message is sent at all. */
    int send_to_matching (msg_t *msg_)
    {
        if (!_full.empty ()) {
            hwgate_zmq_add_lost (_full.size ());
            _full.clear ();
        }
        return dist_t::send_to_matching (msg_);
    }

  private:
    /* Those that will not get the message; compared, never followed. */
    std::vector<const pipe_t *> _full;
};
}

#define dist_t counting_dist_t
#include "xpub.hpp"
#undef dist_t

#endif
