/* Streams of the C library over a TCP connection: streams ADDRESS PORT. The endpoint returns what it receives. Ends with 0 if
 * all lines are returned. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Together more than the buffer of a stream. */
enum { LINES = 5000 };

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, strerror(errno));                               \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

int main(int count, char **arguments) {
    struct sockaddr_in to = {.sin_family = AF_INET};
    CHECK(count == 3 && inet_pton(AF_INET, arguments[1], &to.sin_addr) == 1);
    to.sin_port = htons(atoi(arguments[2]));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof to) == 0);
    CHECK(fdopen(fd, "no mode") == NULL && errno == EINVAL);
    FILE *in = fdopen(fd, "r"), *out = fdopen(dup(fd), "w");
    CHECK(in != NULL && out != NULL);
    CHECK(fileno(in) == fd && fileno(out) > fd && fileno(stdout) == STDOUT_FILENO);
    char line[64], expected[64];
    for (int i = 0; i < LINES; i++) {
        CHECK(fprintf(out, "line %d\n", i) > 0);
        /* Sent one by one at first, and then as full buffers. */
        if (i < 10) {
            CHECK(fflush(out) == 0 && fgets(line, sizeof line, in) != NULL);
            snprintf(expected, sizeof expected, "line %d\n", i);
            CHECK(strcmp(line, expected) == 0);
        }
    }
    CHECK(fclose(out) == 0 && shutdown(fd, SHUT_WR) == 0);
    for (int i = 10; i < LINES; i++) {
        snprintf(expected, sizeof expected, "line %d\n", i);
        CHECK(fgets(line, sizeof line, in) != NULL && strcmp(line, expected) == 0);
    }
    CHECK(fgets(line, sizeof line, in) == NULL && feof(in) && !ferror(in));
    /* Of two streams of a descriptor, the first one that is closed closes it. */
    FILE *other = fdopen(fd, "r");
    CHECK(other != NULL && fclose(in) == 0 && fileno(other) == fd);
    CHECK(fclose(other) == EOF && errno == EBADF && close(fd) == -1 && errno == EBADF);
    return 0;
}
