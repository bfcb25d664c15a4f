"""Drives beanstalkd and a list of Redis as fast as a small client can: by one socket for each worker, and many requests at once.

  pipeline.py beanstalkd|redis SOCKET fill JOBS          puts them, 1000 at once; prints seconds
  pipeline.py beanstalkd|redis SOCKET put JOBS           puts them, one after the other; prints seconds
  pipeline.py beanstalkd|redis SOCKET work SECONDS WORKERS AT_ONCE
      claims and completes jobs until the time is over or there are none; prints how many, and seconds
"""

import os
import socket
import sys
import time

AT_ONCE = 1000


class Connection:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.answers = self.socket.makefile("rb", 1 << 20)

    def send(self, requests):
        self.socket.sendall(b"".join(requests))

    def line(self):
        line = self.answers.readline()
        if not line:
            sys.exit("the server is gone")
        return line[:-2]


class Beanstalkd(Connection):
    def put(self, jobs):
        self.send(b"put 0 0 600 %d\r\n%s\r\n" % (len(job), job) for job in jobs)
        for _ in jobs:
            if not self.line().startswith(b"INSERTED"):
                sys.exit("beanstalkd took no job")

    def work(self, at_once):
        self.send([b"reserve-with-timeout 0\r\n"] * at_once)
        ids = []
        for _ in range(at_once):
            words = self.line().split()
            if words[0] == b"RESERVED":
                self.answers.read(int(words[2]) + 2)
                ids.append(words[1])
        self.send(b"delete %s\r\n" % id for id in ids)
        for _ in ids:
            if self.line() != b"DELETED":
                sys.exit("beanstalkd deleted no job")
        return len(ids)


class Redis(Connection):
    """What is claimed is in a list of the worker's, as the manual has it, so that nothing is lost with the worker."""

    def request(self, *words):
        return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)

    def answer(self):
        line = self.line()
        if line.startswith(b"-"):
            sys.exit(line.decode())
        if not line.startswith(b"$"):
            return line
        length = int(line[1:])
        return None if length < 0 else self.answers.read(length + 2)[:-2]

    def put(self, jobs):
        self.send([self.request(b"RPUSH", b"jobs", *jobs)])
        self.answer()

    def work(self, at_once):
        own = b"claimed:%d" % os.getpid()
        if at_once == 1:
            claim = self.request(b"BLMOVE", b"jobs", own, b"LEFT", b"RIGHT", b"1")
        else:
            claim = self.request(b"LMOVE", b"jobs", own, b"LEFT", b"RIGHT")
        self.send([claim] * at_once)
        jobs = [job for job in [self.answer() for _ in range(at_once)] if job and not job.startswith(b"*")]
        self.send(self.request(b"LREM", own, b"1", job) for job in jobs)
        for _ in jobs:
            self.answer()
        return len(jobs)


def work(peer, path, seconds, at_once, to):
    connection = peer(path)
    begun = last = time.monotonic()
    done = 0
    while time.monotonic() - begun < seconds:
        count = connection.work(at_once)
        if not count:
            break
        done += count
        last = time.monotonic()
    os.write(to, b"%d %f\n" % (done, last - begun))


def main():
    kind, path, what = sys.argv[1:4]
    peer = {"beanstalkd": Beanstalkd, "redis": Redis}[kind]
    if what == "work":
        seconds, workers, at_once = float(sys.argv[4]), int(sys.argv[5]), int(sys.argv[6])
        read, write = os.pipe()
        for _ in range(workers):
            if os.fork() == 0:
                work(peer, path, seconds, at_once, write)
                os._exit(0)
        os.close(write)
        with os.fdopen(read) as results:
            results = [line.split() for line in results]
        if len(results) != workers:
            sys.exit("a worker failed")
        print(sum(int(done) for done, _ in results), max(float(took) for _, took in results))
        return
    connection = peer(path)
    jobs, at_once = int(sys.argv[4]), AT_ONCE if what == "fill" else 1
    begun = time.monotonic()
    for first in range(0, jobs, at_once):
        connection.put([b"%d" % job for job in range(first, min(first + at_once, jobs))])
    print(time.monotonic() - begun)


main()
