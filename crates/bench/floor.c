/* The floor: the smallest program that does what `dblock run` does on the wire, for start.rs to compare with.
   floor PORT NAME PROGRAM: logs in as `floor` without a password, takes the lock, runs the program, frees the lock.
   It checks nothing that it can do without. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int server;
static unsigned char buffer[65536];

static void fill(size_t from, size_t to) {
    while (from < to) {
        ssize_t got = read(server, buffer + from, to - from);
        if (got <= 0) exit(69);
        from += got;
    }
}

/* Reads one packet into the buffer, behind its header; returns its length. */
static size_t packet(void) {
    fill(0, 4);
    size_t length = buffer[0] | buffer[1] << 8 | buffer[2] << 16;
    if (length + 4 > sizeof buffer) exit(70);
    fill(4, 4 + length);
    return length;
}

static void put(unsigned char sequence, const void *payload, size_t length) {
    unsigned char out[512] = {length, length >> 8, length >> 16, sequence};
    memcpy(out + 4, payload, length);
    if (write(server, out, length + 4) != (ssize_t)length + 4) exit(69);
}

static void query(const char *statement) {
    char payload[256];
    int length = snprintf(payload, sizeof payload, "\x03%s", statement);
    put(0, payload, length);
}

/* Reads a result set of one column and one row: column count, column, EOF, row, EOF. */
static void one_row(void) {
    for (int i = 0; i < 5; i++) {
        packet();
        if (buffer[4] == 0xff) exit(70);
    }
}

int main(int argc, char **argv) {
    if (argc < 4) return 64;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(server, (struct sockaddr *)&address, sizeof address)) return 69;
    packet();
    /* PROTOCOL_41, SECURE_CONNECTION, PLUGIN_AUTH, MULTI_STATEMENTS, MULTI_RESULTS; utf8mb4; no password. */
    static const char login[] = "\x00\x82\x0b\x00\x00\x00\x00\x01\x2d\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                                "floor\0\0mysql_native_password";
    put(1, login, sizeof login);
    packet();
    if (buffer[4] != 0) return 77;
    char statement[200];
    snprintf(statement, sizeof statement, "SET SESSION wait_timeout=31536000; SELECT GET_LOCK('%s', 0)", argv[2]);
    query(statement);
    packet();
    one_row();
    pid_t child = vfork();
    if (child == 0) {
        execvp(argv[3], argv + 3);
        _exit(127);
    }
    int status;
    waitpid(child, &status, 0);
    snprintf(statement, sizeof statement, "SELECT RELEASE_LOCK('%s')", argv[2]);
    query(statement);
    one_row();
    put(0, "\x01", 1);
    return WEXITSTATUS(status);
}
