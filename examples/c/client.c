/* Client of an echo server: sends bytes on several connections without copying them, and compares what comes back.
 *
 *   cc -O2 -o client client.c $(pkg-config --cflags --libs linerate)
 *   ./client KIND NAME ADDRESS SERVER CONNECTIONS BYTES
 *   such as: ./client memif /tmp/echo.sock 10.9.0.1/24 10.9.0.2:7 8 10000000
 */
#include "port.h"

/* The bytes are those of their positions modulo 251; the block is a multiple of that, so it can be sent repeatedly. */
enum { BLOCK = 251 * 261 };

static unsigned char block[BLOCK];
static int released;

static void release(void *argument) {
    (void)argument;
    released++;
}

struct exchange {
    size_t sent, received;
};

static size_t total;
static linerate_buffer *buffer;

/* Sends until the send buffer is full, and closes after all bytes. */
static void fill(linerate_host *host, uint64_t connection, struct exchange *e) {
    while (e->sent < total) {
        size_t length = total - e->sent < BLOCK ? total - e->sent : BLOCK;
        int result = linerate_send(host, connection, buffer, 0, length);
        if (result == -11) /* EAGAIN: LINERATE_WRITABLE follows. */
            return;
        must(result, "cannot send");
        e->sent += length;
    }
    must(linerate_close(host, connection), "cannot close");
}

static void compare(struct exchange *e, const linerate_completion *c) {
    for (size_t i = 0; i < c->length; i++) {
        if (c->data[i] != (e->received + i) % 251) {
            fprintf(stderr, "byte %zu of connection %lu is wrong\n", e->received + i, (unsigned long)c->user);
            exit(1);
        }
    }
    e->received += c->length;
}

/* Returns whether a connection has ended. */
static int handle(linerate_host *host, struct exchange *all, const linerate_completion *c) {
    struct exchange *e = &all[c->user];
    switch (c->kind) {
    case LINERATE_CONNECTED:
    case LINERATE_WRITABLE:
        fill(host, c->id, e);
        return 0;
    case LINERATE_DATA:
        compare(e, c);
        linerate_consumed(host, c->id, c->length);
        return 0;
    case LINERATE_CLOSED:
        if (c->status != 0 || e->received != total) {
            fprintf(stderr, "connection %lu ended with status %d after %zu bytes\n", (unsigned long)c->user,
                    c->status, e->received);
            exit(1);
        }
        return 1;
    default:
        return 0;
    }
}

int main(int argc, char **argv) {
    if (argc != 7) {
        fprintf(stderr, "usage: %s KIND NAME ADDRESS SERVER CONNECTIONS BYTES\n", argv[0]);
        return 2;
    }
    linerate_host *host = open_host(argv[1], argv[2], argv[3], LINERATE_CONNECT);
    unsigned long connections = strtoul(argv[5], NULL, 10), ended = 0;
    struct exchange *all = calloc(connections, sizeof *all);
    total = strtoul(argv[6], NULL, 10);
    for (int i = 0; i < BLOCK; i++)
        block[i] = i % 251;
    must(linerate_buffer_wrap(block, BLOCK, release, NULL, &buffer), "cannot wrap the bytes");
    must(linerate_wait_ready(host, 20000), "the port does not connect");

    linerate_endpoint server;
    must(linerate_endpoint_parse(argv[4], &server), "SERVER");
    for (unsigned long i = 0; i < connections; i++) {
        uint64_t connection;
        must(linerate_connect(host, NULL, &server, NULL, i, &connection), "cannot connect");
    }
    while (ended < connections) {
        const linerate_completion *batch;
        int n = must(linerate_wait(host, &batch, LINERATE_MAX_BATCH, 20000), "linerate_wait");
        if (n == 0) {
            fprintf(stderr, "nothing arrived for 20 s\n");
            return 1;
        }
        for (int i = 0; i < n; i++)
            ended += handle(host, all, &batch[i]);
    }
    linerate_buffer_free(buffer);
    linerate_host_free(host);
    free(all);
    printf("%lu connections, %zu bytes each, released %d\n", connections, total, released);
    return released == 1 ? 0 : 1;
}
