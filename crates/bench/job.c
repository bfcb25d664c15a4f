/* The command that is measured with: it works for a while, and records by itself when.
   job FILE MILLISECONDS|FIFO: works for so long, or until nobody writes to the FIFO any more; appends `start` and `end` with nanoseconds of CLOCK_MONOTONIC, which all processes share, and the lock's
   name, in one write each. The clock is read first at the start and, at the end, last but for that write. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int record(int file, const char *event, const struct timespec *at) {
    char line[128];
    const char *name = getenv("DBLOCK_NAME");
    int length = snprintf(line, sizeof line, "%s %lld %.40s\n", event, at->tv_sec * 1000000000LL + at->tv_nsec, name ? name : "-");
    return write(file, line, length) == length;
}

int main(int argc, char **argv) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    /* Further arguments are passed over: xargs gives one. */
    if (argc < 3) return 64;
    int file = open(argv[1], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || !record(file, "start", &at)) return 74;
    if (argv[2][0] == '/') {
        char byte;
        /* Opened in this way it is waited for by nobody when it has been left already. */
        int gate = open(argv[2], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (gate < 0 || fcntl(gate, F_SETFL, 0) || read(gate, &byte, 1) != 0) return 74;
    } else {
        long millis = atol(argv[2]);
        struct timespec work = {.tv_sec = millis / 1000, .tv_nsec = millis % 1000 * 1000000};
        nanosleep(&work, NULL);
    }
    clock_gettime(CLOCK_MONOTONIC, &at);
    return record(file, "end", &at) ? 0 : 74;
}
