/* What benches/events_bench.py needs in C, so that the interpreter is not what is measured.
 *
 *   events_load echo ENDPOINT             a ROUTER that sends back what it gets, until it is killed
 *   events_load ping ENDPOINT COUNT BODY  a REQ that sends BODY and waits for the reply; prints median and 99th percentile, us
 *   events_load count ENDPOINT TOPIC N    a SUB that takes N events of three frames; prints "ready", then seconds and losses
 *   events_load publish ENDPOINT COUNT BODY WINDOW  a DEALER that keeps WINDOW requests under way; prints seconds
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void check(int failed, const char *what) {
  if (failed) {
    fprintf(stderr, "%s: %s\n", what, zmq_strerror(zmq_errno()));
    exit(1);
  }
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Receives one message of any number of frames; the last one is kept in `last`. */
static void receive(void *socket, zmq_msg_t *last) {
  do check(zmq_msg_recv(last, socket, 0) < 0, "recv"); while (zmq_msg_more(last));
}

static void echo(void *context, const char *endpoint) {
  void *router = zmq_socket(context, ZMQ_ROUTER);
  check(zmq_bind(router, endpoint), endpoint);
  char bound[256];
  size_t size = sizeof bound;
  zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, bound, &size);
  printf("commands %s\n", bound);
  fflush(stdout);
  zmq_msg_t frame;
  zmq_msg_init(&frame);
  for (;;) {
    check(zmq_msg_recv(&frame, router, 0) < 0, "recv");
    int more = zmq_msg_more(&frame);
    check(zmq_msg_send(&frame, router, more ? ZMQ_SNDMORE : 0) < 0, "send");
  }
}

static void ping(void *context, const char *endpoint, long count, const char *body) {
  void *req = zmq_socket(context, ZMQ_REQ);
  check(zmq_connect(req, endpoint), endpoint);
  double *took = malloc(sizeof(double) * (size_t)count);
  zmq_msg_t reply;
  zmq_msg_init(&reply);
  for (long n = -count / 10; n < count; n++) {
    double start = now();
    check(zmq_send(req, body, strlen(body), 0) < 0, "send");
    receive(req, &reply);
    if (n >= 0) took[n] = (now() - start) * 1e6;
  }
  qsort(took, (size_t)count, sizeof *took, by_value);
  printf("%.2f %.2f\n", took[count / 2], took[count * 99 / 100]);
}

static void count_events(void *context, const char *endpoint, const char *topic, long wanted) {
  void *sub = zmq_socket(context, ZMQ_SUB);
  int hwm = 0, patience = 30000;
  zmq_setsockopt(sub, ZMQ_RCVHWM, &hwm, sizeof hwm);
  zmq_setsockopt(sub, ZMQ_RCVTIMEO, &patience, sizeof patience);
  check(zmq_connect(sub, endpoint), endpoint);
  zmq_setsockopt(sub, ZMQ_SUBSCRIBE, topic, strlen(topic));
  zmq_setsockopt(sub, ZMQ_SUBSCRIBE, "~sync/bench/", 12);
  zmq_msg_t frame;
  zmq_msg_init(&frame);
  receive(sub, &frame);
  printf("ready\n");
  fflush(stdout);
  double start = 0;
  long seen = 0, first = 0, last = 0;
  while (seen < wanted) {
    if (zmq_msg_recv(&frame, sub, 0) < 0) break;
    if (zmq_msg_recv(&frame, sub, 0) < 0) break;
    char header[512];
    size_t size = zmq_msg_size(&frame) < sizeof header - 1 ? zmq_msg_size(&frame) : sizeof header - 1;
    memcpy(header, zmq_msg_data(&frame), size);
    header[size] = 0;
    const char *seq = strstr(header, "\"seq\":");
    last = seq ? strtol(seq + 6, NULL, 10) : 0;
    if (!seen) {
      first = last;
      start = now();
    }
    receive(sub, &frame);
    seen++;
    if (last - first + 1 >= wanted) break;
  }
  printf("%.4f %ld %ld\n", now() - start, seen, last - first + 1 - seen);
}

static void publish(void *context, const char *endpoint, long count, const char *body, long window) {
  void *dealer = zmq_socket(context, ZMQ_DEALER);
  int hwm = 0;
  zmq_setsockopt(dealer, ZMQ_SNDHWM, &hwm, sizeof hwm);
  zmq_setsockopt(dealer, ZMQ_RCVHWM, &hwm, sizeof hwm);
  check(zmq_connect(dealer, endpoint), endpoint);
  zmq_msg_t reply;
  zmq_msg_init(&reply);
  long sent = 0, answered = 0;
  double start = now();
  while (answered < count) {
    while (sent < count && sent - answered < window) {
      zmq_send(dealer, "", 0, ZMQ_SNDMORE);
      check(zmq_send(dealer, body, strlen(body), 0) < 0, "send");
      sent++;
    }
    receive(dealer, &reply);
    if (memmem(zmq_msg_data(&reply), zmq_msg_size(&reply), "\"error\"", 7)) {
      fprintf(stderr, "%.*s\n", (int)zmq_msg_size(&reply), (char *)zmq_msg_data(&reply));
      exit(1);
    }
    answered++;
  }
  printf("%.4f\n", now() - start);
}

int main(int argc, char **argv) {
  void *context = zmq_ctx_new();
  if (argc == 3 && !strcmp(argv[1], "echo")) echo(context, argv[2]);
  else if (argc == 5 && !strcmp(argv[1], "ping")) ping(context, argv[2], atol(argv[3]), argv[4]);
  else if (argc == 5 && !strcmp(argv[1], "count")) count_events(context, argv[2], argv[3], atol(argv[4]));
  else if (argc == 6 && !strcmp(argv[1], "publish")) publish(context, argv[2], atol(argv[3]), argv[4], atol(argv[5]));
  else return fprintf(stderr, "usage: see the head of events_load.c\n"), 64;
  return 0;
}
