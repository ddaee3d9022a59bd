/* Echo server for TCP and UDP. Data goes back from the memory in which it arrived.
 *
 *   cc -O2 -o echo echo.c $(pkg-config --cflags --libs linerate)
 *   ./echo KIND NAME ADDRESS PORT        such as: ./echo tap web0 10.9.0.2/24 7
 *                                      or: ./echo tap web0 auto 7
 *
 * Received data is consumed when the peer has acknowledged its echo. The receive window therefore limits what waits in
 * the send buffer, which is larger, so no send fails for lack of space.
 */
#include "port.h"
#include <signal.h>

static volatile sig_atomic_t stopped;

static void stop(int signal) {
    (void)signal;
    stopped = 1;
}

static unsigned long connections, bytes, datagrams;

static void handle(linerate_host *host, const linerate_completion *c) {
    switch (c->kind) {
    case LINERATE_ACCEPTED:
        connections++;
        linerate_report_acknowledged(host, c->id, 1);
        break;
    case LINERATE_DATA:
        bytes += c->length;
        /* Fails only if the connection has ended; LINERATE_CLOSED follows. */
        linerate_send(host, c->id, c->buffer, 0, c->length);
        break;
    case LINERATE_ACKNOWLEDGED:
        linerate_consumed(host, c->id, c->length);
        break;
    case LINERATE_FINISHED:
        linerate_close(host, c->id);
        break;
    case LINERATE_DATAGRAM:
        datagrams++;
        if (linerate_udp_send(host, c->id, &c->remote, c->buffer, 0, c->length) < 0)
            fprintf(stderr, "datagram: %s\n", linerate_last_error());
        break;
    default:
        break;
    }
}

/* Returns the number of addresses. Prints all of them if it has changed. */
static int report_addresses(linerate_host *host, int before) {
    char text[LINERATE_ENDPOINT_TEXT];
    int count = 0;
    while (must(linerate_interface_address(host, 0, count, text, sizeof text), "addresses") > 0)
        count++;
    if (count == before)
        return count;
    printf("addresses");
    for (int i = 0; linerate_interface_address(host, 0, i, text, sizeof text) > 0; i++)
        printf(" %s", text);
    printf("\n");
    fflush(stdout);
    return count;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: %s KIND NAME ADDRESS PORT\n", argv[0]);
        return 2;
    }
    signal(SIGTERM, stop);
    signal(SIGINT, stop);
    linerate_host *host = open_host(argv[1], argv[2], argv[3], LINERATE_LISTEN);
    linerate_tcp_options options;
    must(linerate_tcp_options_init(&options), "linerate_tcp_options_init");
    options.no_delay = 1;

    char text[LINERATE_ENDPOINT_TEXT];
    linerate_endpoint local;
    uint64_t socket;
    snprintf(text, sizeof text, "0.0.0.0:%s", argv[4]);
    must(linerate_endpoint_parse(text, &local), "PORT");
    must(linerate_listen(host, &local, &options, 0, NULL), "cannot listen");
    must(linerate_udp_open(host, &local, 0, &socket), "cannot open a UDP socket");
    printf("serves %s\n", text);
    fflush(stdout);

    int addresses = 0;
    while (!stopped) {
        const linerate_completion *batch;
        int n = must(linerate_wait(host, &batch, 16, 100), "linerate_wait");
        for (int i = 0; i < n; i++)
            handle(host, &batch[i]);
        addresses = report_addresses(host, addresses);
    }
    printf("%lu connections, %lu bytes, %lu datagrams\n", connections, bytes, datagrams);
    linerate_host_free(host);
    return 0;
}
