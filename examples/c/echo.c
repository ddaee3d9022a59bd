/* Echo server for TCP and UDP. Data goes back from the memory in which it arrived.
 *
 *   cc -O2 -pthread -o echo echo.c $(pkg-config --cflags --libs linerate)
 *   ./echo KIND NAME ADDRESS PORT [THREADS]        such as: ./echo tap web0 10.9.0.2/24 7
 *                                                or: ./echo tap web0 auto 7 2
 *
 * Each thread has a host with connections of its own; the hosts share the port. Received data is consumed when the peer
 * has acknowledged its echo. The receive window therefore limits what waits in the send buffer, which is larger, so no
 * send fails for lack of space.
 */
#include "port.h"
#include <pthread.h>
#include <signal.h>

static volatile sig_atomic_t stopped;

static void stop(int signal) {
    (void)signal;
    stopped = 1;
}

struct worker {
    pthread_t thread;
    linerate_host *host;
    unsigned long connections, bytes, datagrams;
};

static struct worker workers[LINERATE_MAX_WORKERS];

static void handle(struct worker *own, const linerate_completion *c) {
    linerate_host *host = own->host;
    switch (c->kind) {
    case LINERATE_ACCEPTED:
        own->connections++;
        linerate_report_acknowledged(host, c->id, 1);
        break;
    case LINERATE_DATA:
        own->bytes += c->length;
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
        own->datagrams++;
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

static void listen_on(linerate_host *host, const char *port) {
    linerate_tcp_options options;
    must(linerate_tcp_options_init(&options), "linerate_tcp_options_init");
    options.no_delay = 1;

    char text[LINERATE_ENDPOINT_TEXT];
    linerate_endpoint local;
    uint64_t socket;
    snprintf(text, sizeof text, "0.0.0.0:%s", port);
    must(linerate_endpoint_parse(text, &local), "PORT");
    must(linerate_listen(host, &local, &options, 0, NULL), "cannot listen");
    must(linerate_udp_open(host, &local, 0, &socket), "cannot open a UDP socket");
}

static void *serve(void *argument) {
    struct worker *own = argument;
    int addresses = 0;
    while (!stopped) {
        const linerate_completion *batch;
        int n = must(linerate_wait(own->host, &batch, 16, 100), "linerate_wait");
        for (int i = 0; i < n; i++)
            handle(own, &batch[i]);
        /* All hosts have the same addresses. */
        if (own == workers)
            addresses = report_addresses(own->host, addresses);
    }
    return NULL;
}

int main(int argc, char **argv) {
    size_t threads = argc > 5 ? strtoul(argv[5], NULL, 10) : 1;
    if (argc < 5 || argc > 6 || threads < 1 || threads > LINERATE_MAX_WORKERS) {
        fprintf(stderr, "usage: %s KIND NAME ADDRESS PORT [THREADS]\n", argv[0]);
        return 2;
    }
    signal(SIGTERM, stop);
    signal(SIGINT, stop);
    linerate_host *hosts[LINERATE_MAX_WORKERS];
    if (threads == 1)
        must(linerate_host_new(NULL, hosts), "linerate_host_new");
    else
        must(linerate_workers_new(NULL, threads, LINERATE_HASH, hosts), "linerate_workers_new");
    for (size_t i = 0; i < threads; i++) {
        workers[i].host = hosts[i];
        open_port(hosts[i], argv[1], argv[2], argv[3], LINERATE_LISTEN);
        listen_on(hosts[i], argv[4]);
    }
    printf("serves 0.0.0.0:%s\n", argv[4]);
    fflush(stdout);

    for (size_t i = 1; i < threads; i++) {
        if (pthread_create(&workers[i].thread, NULL, serve, &workers[i]) != 0) {
            fprintf(stderr, "cannot start a thread\n");
            return 1;
        }
    }
    serve(&workers[0]);
    struct worker sum = {0};
    for (size_t i = 0; i < threads; i++) {
        struct worker *own = &workers[i];
        if (i > 0)
            pthread_join(own->thread, NULL);
        printf("thread %zu: %lu connections\n", i, own->connections);
        sum.connections += own->connections;
        sum.bytes += own->bytes;
        sum.datagrams += own->datagrams;
    }
    printf("%lu connections, %lu bytes, %lu datagrams\n", sum.connections, sum.bytes, sum.datagrams);
    for (size_t i = 0; i < threads; i++)
        linerate_host_free(hosts[i]);
    return 0;
}
