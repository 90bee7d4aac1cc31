"""A log producer as pyzmq users write it: PUSH numbered lines until SIGTERM, then close normally.

usage: producer.py ENDPOINT NAME RATE utf8|utf16|topic
Prints how many messages were given to the socket. RATE 0: as fast as it goes.
"""
import signal
import sys
import time

import zmq


def payload(name, n):
    return f"{name} {n:08d} " + "Grüße 😀 " * (n % 7) + f"end{n}"


def main():
    endpoint, name, rate, form = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    ending = False

    def end(_number, _frame):
        nonlocal ending
        ending = True

    signal.signal(signal.SIGTERM, end)
    context = zmq.Context()
    push = context.socket(zmq.PUSH)
    push.sndhwm = 5000
    push.linger = 30_000
    push.connect(endpoint)
    start = time.monotonic()
    n = 0
    while not ending:
        if rate and n >= (time.monotonic() - start) * rate:
            time.sleep(0.005)
            continue
        text = payload(name, n)
        data = text.encode("utf-16-le") if form == "utf16" else text.encode()
        try:
            push.send_multipart([b"load.WARNING." + name.encode(), data] if form == "topic" else [data], zmq.NOBLOCK)
        except zmq.Again:
            time.sleep(0.002)
            continue
        n += 1
    push.close()
    context.term()
    print(n, flush=True)


if __name__ == "__main__":
    main()
