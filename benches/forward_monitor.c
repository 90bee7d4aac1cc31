/* A monitor subscriber for benches/forward_bench.py, in C and in a process of its own, so that it really reads all.
 *
 *   forward_monitor ENDPOINT   a SUB that takes everything; prints "ready" at the first message whose first frame is
 *                              "in". After 2 s of silence, or on SIGTERM, it prints how many whole messages of that
 *                              kind it saw, and how many of them were probes that joined the path, and exits
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

static volatile sig_atomic_t stopped;

static void stop(int signal) {
  (void)signal;
  stopped = 1;
}

static void check(int failed, const char *what) {
  if (failed) {
    fprintf(stderr, "%s: %s\n", what, zmq_strerror(zmq_errno()));
    exit(1);
  }
}

static int holds(zmq_msg_t *frame, const char *text) {
  return zmq_msg_size(frame) == strlen(text) && !memcmp(zmq_msg_data(frame), text, strlen(text));
}

int main(int argc, char **argv) {
  if (argc != 2) return fprintf(stderr, "usage: see the head of forward_monitor.c\n"), 64;
  /* Without SA_RESTART, so that a signal ends a receive that waits. */
  struct sigaction action = {.sa_handler = stop};
  check(sigaction(SIGTERM, &action, NULL), "sigaction");
  void *sub = zmq_socket(zmq_ctx_new(), ZMQ_SUB);
  int hwm = 0, silence = 2000;
  zmq_setsockopt(sub, ZMQ_RCVHWM, &hwm, sizeof hwm);
  zmq_setsockopt(sub, ZMQ_RCVTIMEO, &silence, sizeof silence);
  zmq_setsockopt(sub, ZMQ_SUBSCRIBE, "", 0);
  check(zmq_connect(sub, argv[1]), argv[1]);
  zmq_msg_t frame;
  zmq_msg_init(&frame);
  long seen = 0, probes = 0;
  while (!stopped) {
    if (zmq_msg_recv(&frame, sub, 0) < 0) {
      if (zmq_errno() == EINTR) continue;
      check(zmq_errno() != EAGAIN, "recv");
      if (seen) break;
      continue;
    }
    int in = holds(&frame, "in"), probe = 0;
    /* libzmq delivers a message with all its frames or not at all, so these receives do not wait. */
    for (int n = 1; zmq_msg_more(&frame); n++) {
      check(zmq_msg_recv(&frame, sub, 0) < 0, "recv");
      if (n == 1) probe = holds(&frame, "probe");
    }
    if (!in) continue;
    probes += probe;
    if (!seen++) {
      printf("ready\n");
      fflush(stdout);
    }
  }
  printf("%ld %ld\n", seen, probes);
  return 0;
}
