/* Member of a multicast group. Greets the group, and returns each datagram to its sender. After the datagram "leave" it
 * is no member any more, and returns those to its own address only.
 *
 *   cc -O2 -o member member.c $(pkg-config --cflags --libs linerate)
 *   ./member KIND NAME ADDRESS GROUP PORT    such as: ./member tap web0 10.9.0.2/24 239.1.2.3 5000
 */
#include "port.h"
#include <signal.h>

static volatile sig_atomic_t stopped;

static void stop(int signal) {
    (void)signal;
    stopped = 1;
}

static linerate_endpoint endpoint(const char *address, const char *port) {
    char text[LINERATE_ENDPOINT_TEXT];
    linerate_endpoint endpoint;
    snprintf(text, sizeof text, strchr(address, ':') != NULL ? "[%s]:%s" : "%s:%s", address, port);
    must(linerate_endpoint_parse(text, &endpoint), text);
    return endpoint;
}

static void handle(linerate_host *host, const char *group, const linerate_completion *c) {
    if (c->kind != LINERATE_DATAGRAM)
        return;
    if (c->length == 5 && memcmp(c->data, "leave", 5) == 0)
        must(linerate_udp_leave(host, c->id, group, LINERATE_ANY_INTERFACE), "cannot leave the group");
    if (linerate_udp_send(host, c->id, &c->remote, c->buffer, 0, c->length) < 0)
        fprintf(stderr, "datagram: %s\n", linerate_last_error());
}

int main(int argc, char **argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: %s KIND NAME ADDRESS GROUP PORT\n", argv[0]);
        return 2;
    }
    signal(SIGTERM, stop);
    signal(SIGINT, stop);
    linerate_host *host = open_host(argv[1], argv[2], argv[3], LINERATE_LISTEN);
    const char *group = argv[4];
    linerate_endpoint to = endpoint(group, argv[5]);
    linerate_endpoint any = endpoint(strchr(group, ':') != NULL ? "::" : "0.0.0.0", argv[5]);
    uint64_t socket;
    must(linerate_udp_open(host, &any, 0, &socket), "cannot open a UDP socket");
    must(linerate_udp_join(host, socket, group, LINERATE_ANY_INTERFACE), "cannot join the group");
    must(linerate_udp_set_hop_limits(host, socket, 64, 8), "cannot set the hop limits");
    must(linerate_wait_ready(host, 20000), "the port does not connect");
    must(linerate_udp_send_copy(host, socket, &to, "hello", 5), "cannot greet the group");

    while (!stopped) {
        const linerate_completion *batch;
        int n = must(linerate_wait(host, &batch, 16, 100), "linerate_wait");
        for (int i = 0; i < n; i++)
            handle(host, group, &batch[i]);
    }
    linerate_host_free(host);
    return 0;
}
