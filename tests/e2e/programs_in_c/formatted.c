/* dprintf(3) and vdprintf(3) on a TCP connection and on a pipe: formatted ADDRESS PORT. The endpoint returns what it
 * receives. Ends with 0 if all text is returned. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, strerror(errno));                               \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static int print(int fd, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vdprintf(fd, format, arguments);
    va_end(arguments);
    return length;
}

/* Reads the text that was written to `to`. */
static void returned(int from, const char *expected) {
    static char text[1 << 16];
    for (size_t have = 0, all = strlen(expected); have < all;) {
        ssize_t n = read(from, text + have, all - have);
        CHECK(n > 0);
        have += n;
    }
    CHECK(memcmp(text, expected, strlen(expected)) == 0);
}

static void formatted(int to, int from) {
    static char expected[1 << 16];
    /* More arguments than registers. */
#define MANY "%s %d %ld %c %u %x %lld %g %g %g %g %g %g %g %g %.1f %s\n", "one", 2, 3L, '4', 5U, 6, 7LL, .5, 1.5, 2.5,  \
             3.5, 4.5, 5.5, 6.5, 7.5, 8.5, "last"
    int length = snprintf(expected, sizeof expected, MANY);
    CHECK(dprintf(to, MANY) == length);
    returned(from, expected);
    CHECK(print(to, MANY) == length);
    returned(from, expected);
    /* More than a segment, and nothing. */
    length = snprintf(expected, sizeof expected, "%*d\n", 20000, 1);
    CHECK(dprintf(to, "%*d\n", 20000, 1) == length);
    returned(from, expected);
    CHECK(dprintf(to, "%s", "") == 0);
}

int main(int count, char **arguments) {
    struct sockaddr_in to = {.sin_family = AF_INET};
    CHECK(count == 3 && inet_pton(AF_INET, arguments[1], &to.sin_addr) == 1);
    to.sin_port = htons(atoi(arguments[2]));
    int fd = socket(AF_INET, SOCK_STREAM, 0), ends[2];
    CHECK(fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof to) == 0 && pipe(ends) == 0);
    formatted(fd, fd);
    formatted(ends[1], ends[0]);
    CHECK(close(fd) == 0 && dprintf(fd, "%d", 1) == -1 && errno == EBADF);
    return 0;
}
