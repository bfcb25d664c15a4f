/* What a C program with libpq does in dblock's place, for postgres.rs to compare with.
   pg-lock try|wait KEY PROGRAM...: connects as libpq's variables say, takes the advisory lock, runs the program, releases the lock and
   exits with the program's code; 75 if `try` finds the lock taken. `wait` waits in the statement, as most programs do. */
#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Whether the statement's only value is true, or nothing (void). */
static int holds(PGconn *server, const char *statement) {
    PGresult *result = PQexec(server, statement);
    int is_true = PQresultStatus(result) == PGRES_TUPLES_OK && strcmp(PQgetvalue(result, 0, 0), "f") != 0;
    if (PQresultStatus(result) != PGRES_TUPLES_OK) fputs(PQerrorMessage(server), stderr);
    PQclear(result);
    return is_true;
}

int main(int argc, char **argv) {
    if (argc < 4) return 64;
    PGconn *server = PQconnectdb("");
    if (PQstatus(server) != CONNECTION_OK) {
        fputs(PQerrorMessage(server), stderr);
        return 69;
    }
    char statement[100];
    snprintf(statement, sizeof statement, "SELECT pg_%sadvisory_lock(%.40s)", strcmp(argv[1], "try") ? "" : "try_", argv[2]);
    if (!holds(server, statement)) return 75;
    pid_t child = fork();
    if (child < 0) return 71;
    if (child == 0) {
        execvp(argv[3], argv + 3);
        _exit(127);
    }
    int status;
    if (waitpid(child, &status, 0) != child) return 71;
    snprintf(statement, sizeof statement, "SELECT pg_advisory_unlock(%.40s)", argv[2]);
    if (!holds(server, statement)) return 70;
    PQfinish(server);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
