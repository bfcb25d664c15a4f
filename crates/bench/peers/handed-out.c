/* The command of the example with repeating jobs: appends to FILE the nanoseconds of CLOCK_REALTIME, how many bytes it reads, and
   these, in one write. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
    enum { HEAD = 64, ROOM = 1 << 20 };
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    char *bytes = malloc(HEAD + ROOM);
    if (argc != 2 || !bytes) return 64;
    ssize_t length = 0, more;
    while ((more = read(0, bytes + HEAD + length, ROOM - length)) > 0) length += more;
    char head[HEAD];
    int size = snprintf(head, HEAD, "%lld %zd\n", at.tv_sec * 1000000000LL + at.tv_nsec, length);
    char *from = bytes + HEAD - size;
    for (int i = 0; i < size; i++) from[i] = head[i];
    int file = open(argv[1], O_WRONLY | O_APPEND | O_CREAT, 0600);
    return more || file < 0 || write(file, from, size + length) != size + length ? 74 : 0;
}
