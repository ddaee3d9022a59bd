/* Opens a port of any kind and configures its address: KIND NAME ADDRESS, such as "tap web0 10.9.0.2/24". The ADDRESS
 * "auto" obtains addresses by DHCP and from routers. */
#ifndef PORT_H
#define PORT_H

#include <linerate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program if a call failed. */
static int must(int result, const char *what) {
    if (result < 0) {
        fprintf(stderr, "%s: %s\n", what, linerate_last_error());
        exit(1);
    }
    return result;
}

/* `mode` is LINERATE_LISTEN or LINERATE_CONNECT, for kinds with a socket. */
static void open_port(linerate_host *host, const char *kind, const char *name, const char *address, uint32_t mode) {
    int interface = -1;
    if (strcmp(kind, "tap") == 0) {
        interface = linerate_open_tap(host, name, getenv("NETNS"), NULL);
    } else if (strcmp(kind, "af_packet") == 0) {
        interface = linerate_open_af_packet(host, name, getenv("NETNS"), NULL);
    } else if (strcmp(kind, "af_xdp") == 0) {
        interface = linerate_open_af_xdp(host, name, getenv("NETNS"), NULL);
    } else if (strcmp(kind, "memif") == 0) {
        interface = linerate_open_memif(host, name, mode, 0, NULL, NULL);
    } else if (strcmp(kind, "vhost-user") == 0) {
        interface = linerate_open_vhost_user(host, name, mode, NULL);
    } else if (strcmp(kind, "virtio-user") == 0) {
        interface = linerate_open_virtio_user(host, name, mode, NULL);
    } else {
        fprintf(stderr, "invalid kind %s: expected tap, af_packet, af_xdp, memif, vhost-user or virtio-user\n", kind);
        exit(2);
    }
    must(interface, kind);
    if (strcmp(address, "auto") == 0) {
        must(linerate_start_dhcp(host, interface), "cannot start DHCP");
        must(linerate_start_slaac(host, interface, LINERATE_EUI64), "cannot start SLAAC");
    } else {
        must(linerate_add_address(host, interface, address), "cannot add the address");
    }
}

static inline linerate_host *open_host(const char *kind, const char *name, const char *address, uint32_t mode) {
    linerate_host *host = NULL;
    must(linerate_host_new(NULL, &host), "linerate_host_new");
    open_port(host, kind, name, address, mode);
    return host;
}

#endif
