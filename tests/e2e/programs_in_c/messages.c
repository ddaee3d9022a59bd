/* Calls of several messages, and splice(2), on sockets: messages ADDRESS PORT. UDP and TCP of that endpoint return what they
 * receive. Ends with 0 if all bytes are returned. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { COUNT = 3, SIZE = 100 };

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "line %d: " #condition ": %s\n", __LINE__, strerror(errno));                               \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static char sent[COUNT][SIZE], received[COUNT][SIZE];

static void prepare(struct mmsghdr *messages, struct iovec *vectors, char (*bytes)[SIZE]) {
    memset(messages, 0, COUNT * sizeof *messages);
    for (int i = 0; i < COUNT; i++) {
        vectors[i] = (struct iovec){bytes[i], SIZE};
        messages[i].msg_hdr.msg_iov = &vectors[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
}

static void datagrams(const struct sockaddr_in *to) {
    struct mmsghdr messages[COUNT];
    struct iovec vectors[COUNT];
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(fd >= 0 && connect(fd, (const struct sockaddr *)to, sizeof *to) == 0);
    prepare(messages, vectors, sent);
    CHECK(sendmmsg(fd, messages, COUNT, 0) == COUNT);
    for (int i = 0; i < COUNT; i++)
        CHECK(messages[i].msg_len == SIZE);
    prepare(messages, vectors, received);
    for (int have = 0; have < COUNT;) {
        int n = recvmmsg(fd, messages + have, COUNT - have, MSG_WAITFORONE, NULL);
        CHECK(n > 0);
        have += n;
    }
    CHECK(memcmp(sent, received, sizeof sent) == 0);
    CHECK(recvmmsg(fd, messages, COUNT, MSG_DONTWAIT, NULL) == -1 && errno == EAGAIN);
    close(fd);
}

/* splice may be refused, and then loses nothing: programs read and write instead. */
static void stream(const struct sockaddr_in *to) {
    int fd = socket(AF_INET, SOCK_STREAM, 0), ends[2];
    CHECK(fd >= 0 && connect(fd, (const struct sockaddr *)to, sizeof *to) == 0 && pipe(ends) == 0);
    CHECK(write(ends[1], sent, sizeof sent) == sizeof sent);
    ssize_t n = splice(ends[0], NULL, fd, NULL, sizeof sent, 0);
    if (n < 0) {
        CHECK(errno == EINVAL);
        CHECK(read(ends[0], sent, sizeof sent) == sizeof sent);
        n = write(fd, sent, sizeof sent);
    }
    CHECK(n == sizeof sent);
    CHECK(recv(fd, received, sizeof received, MSG_WAITALL) == sizeof received);
    CHECK(memcmp(sent, received, sizeof sent) == 0);
    close(fd);
}

int main(int count, char **arguments) {
    struct sockaddr_in to = {.sin_family = AF_INET};
    CHECK(count == 3 && inet_pton(AF_INET, arguments[1], &to.sin_addr) == 1);
    to.sin_port = htons(atoi(arguments[2]));
    for (int i = 0; i < COUNT; i++)
        memset(sent[i], 'a' + i, SIZE);
    datagrams(&to);
    memset(received, 0, sizeof received);
    stream(&to);
    return 0;
}
