/* linerate: the TCP/IP stack of one core over packet ports, for programs in C.
 *
 * Generated from stack/ffi/src; do not edit.
 *
 * Functions return 0 or a positive result, or a negative error number of errno.h; linerate_last_error has the reason
 * then. A host is used by one thread at a time. Pointers to arguments are not kept after a call, except by
 * linerate_buffer_wrap. Text is UTF-8 and ends with zero. Objects that were freed must not be used.
 */

#ifndef LINERATE_H
#define LINERATE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/*
 Sleep when there is nothing to do (`linerate_options.polling`).
 */
#define LINERATE_ADAPTIVE 0

/*
 Never sleep: the lowest latency, at the price of a CPU.
 */
#define LINERATE_BUSY 1

/*
 The host that the hash of its flow selects has a connection or datagram (`linerate_workers_new`). For every port.
 */
#define LINERATE_HASH 0

/*
 The host at whose queue its packets arrive has a connection or datagram. For network cards with receive-side
 scaling, which keep a flow on one queue.
 */
#define LINERATE_ARRIVAL 1

/*
 Maximum number of hosts that share ports.
 */
#define LINERATE_MAX_WORKERS 32

/*
 Connect to the socket, which another process listens on.
 */
#define LINERATE_CONNECT 0

/*
 Listen on the socket, to which another process connects.
 */
#define LINERATE_LISTEN 1

/*
 Bytes of the longest text of an endpoint, with the zero at its end.
 */
#define LINERATE_ENDPOINT_TEXT 64

/*
 IPv6 addresses that end with the Ethernet address (modified EUI-64).
 */
#define LINERATE_EUI64 0

/*
 IPv6 addresses that differ between networks and hosts (RFC 7217), and between runs.
 */
#define LINERATE_OPAQUE 1

/*
 CUBIC (RFC 9438).
 */
#define LINERATE_CUBIC 0

/*
 NewReno (RFC 6582).
 */
#define LINERATE_NEW_RENO 1

/*
 BBR.
 */
#define LINERATE_BBR 2

/*
 Interface of linerate_udp_join and linerate_udp_leave: the one over which datagrams to the group leave, and any.
 */
#define LINERATE_ANY_INTERFACE -1

/*
 Maximum number of completions of a batch.
 */
#define LINERATE_MAX_BATCH 64

/*
 Maximum length of a counter's name in bytes, with the zero at its end.
 */
#define LINERATE_COUNTER_NAME 32

/*
 Kind of a completion.
 */
enum linerate_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /*
   A peer opened a connection: `id`, `listener`, `remote`.
   */
  LINERATE_ACCEPTED = 1,
  /*
   A connection opened here is established: `id`.
   */
  LINERATE_CONNECTED = 2,
  /*
   Bytes of a connection: `id`, `buffer`, `data`, `length`. linerate_consumed opens the window again.
   */
  LINERATE_DATA = 3,
  /*
   The peer will send no more on a connection: `id`.
   */
  LINERATE_FINISHED = 4,
  /*
   A connection has space to send again, after a function returned -EAGAIN: `id`.
   */
  LINERATE_WRITABLE = 5,
  /*
   The peer acknowledged `length` bytes of a connection (linerate_report_acknowledged): `id`.
   */
  LINERATE_ACKNOWLEDGED = 6,
  /*
   A connection has ended, or was not established: `id`, `status`. No completion of it follows.
   */
  LINERATE_CLOSED = 7,
  /*
   A datagram: `id` of the socket, `remote`, `local`, `buffer`, `data`, `length`.
   */
  LINERATE_DATAGRAM = 8,
  /*
   The network reports that a datagram of a connected socket was not delivered: `id` of the socket, `status`.
   */
  LINERATE_DATAGRAM_LOST = 9,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum linerate_kind linerate_kind;
#else
typedef uint32_t linerate_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/*
 A counted handle of bytes that do not change. Received data has one, and is sent again without a copy by it. Buffers
 may be used and freed by any thread.
 */
typedef struct linerate_buffer linerate_buffer;

/*
 A host: ports, a TCP/IP stack and its completions. It must be used by one thread at a time, usually one for each
 core. Hosts of linerate_host_new share nothing.
 */
typedef struct linerate_host linerate_host;

/*
 Settings of a host. Zero selects the default of a field.
 */
typedef struct linerate_options {
  /*
   LINERATE_ADAPTIVE or LINERATE_BUSY.
   */
  uint32_t polling;
  /*
   Time without work before an adaptive host sleeps, in nanoseconds; 50 microseconds by default.
   */
  uint32_t idle_ns;
  /*
   Maximum number of connections; 65536 by default.
   */
  uint32_t connections;
  /*
   Receive buffer of a connection in bytes; 1 MiB by default.
   */
  uint32_t receive_buffer;
  /*
   Send buffer of a connection in bytes; 4 MiB by default.
   */
  uint32_t send_buffer;
  /*
   If 1, received data is never copied: data that a peer of the port can still change is delivered without a
   pointer (`linerate_completion.data`) and read by linerate_buffer_read. By default, such data is copied once.
   */
  uint32_t keep_foreign;
} linerate_options;

/*
 Settings of an interface. Zero selects the default of a field.
 */
typedef struct linerate_interface {
  /*
   Ethernet address; by default a random one of local administration.
   */
  uint8_t mac[6];
  /*
   Maximum length of an IP packet in bytes, 1280 to 65535; 1500 by default.
   */
  uint16_t mtu;
  /*
   VLAN of all frames, 1 to 4094; by default, frames are untagged.
   */
  uint16_t vlan;
} linerate_interface;

/*
 An address and a port.
 */
typedef struct linerate_endpoint {
  /*
   IPv6 address in network byte order. An IPv4 address is the IPv4-mapped IPv6 address ::ffff:a.b.c.d, and 0.0.0.0
   is ::ffff:0.0.0.0.
   */
  uint8_t address[16];
  /*
   Port in the byte order of the host.
   */
  uint16_t port;
} linerate_endpoint;

/*
 Called when no connection and no buffer refers to the bytes any more, on the thread that ends the last use. It must
 not call functions of a host and must return.
 */
typedef void (*linerate_release)(void *argument);

/*
 Settings of a connection. linerate_tcp_options_init sets the defaults.
 */
typedef struct linerate_tcp_options {
  /*
   LINERATE_CUBIC, LINERATE_NEW_RENO or LINERATE_BBR.
   */
  uint32_t congestion;
  /*
   Idle time before the first keep-alive probe in milliseconds; 0 sends none.
   */
  uint32_t keep_alive_ms;
  /*
   Time for which sent data may stay unacknowledged before the connection ends, in milliseconds.
   */
  uint32_t user_timeout_ms;
  /*
   Maximum delay of an acknowledgement in milliseconds, at most 499.
   */
  uint32_t delayed_ack_ms;
  /*
   Duration of TIME-WAIT in milliseconds.
   */
  uint32_t time_wait_ms;
  /*
   1 sends small segments although data is unacknowledged (no Nagle algorithm).
   */
  uint8_t no_delay;
  /*
   1 sends only full segments until it is 0 again.
   */
  uint8_t cork;
  /*
   1 negotiates explicit congestion notification.
   */
  uint8_t ecn;
  /*
   1 requests and accepts cookies of TCP Fast Open.
   */
  uint8_t fast_open;
} linerate_tcp_options;

/*
 A completion. Fields that its kind does not name are zero.
 */
typedef struct linerate_completion {
  /*
   Kind.
   */
  linerate_kind kind;
  /*
   Reason of an end: 0 if both sides closed, otherwise a negative error number.
   */
  int32_t status;
  /*
   User data of the connection or socket. An accepted connection starts with that of its listener.
   */
  uint64_t user;
  /*
   The connection or socket.
   */
  uint64_t id;
  /*
   The bytes. NULL if a peer of a port can still change them (linerate_options.keep_foreign), or if there are none.
   */
  const uint8_t *data;
  /*
   Number of bytes.
   */
  size_t length;
  /*
   Counted handle of the bytes.
   */
  const struct linerate_buffer *buffer;
  /*
   The listener.
   */
  uint32_t listener;
  /*
   The peer.
   */
  struct linerate_endpoint remote;
  /*
   Own address and port.
   */
  struct linerate_endpoint local;
} linerate_completion;

/*
 A counter of the stack.
 */
typedef struct linerate_counter {
  /*
   Name, which is Linux's (nstat) where Linux has the counter.
   */
  char name[LINERATE_COUNTER_NAME];
  /*
   Value since the host was created.
   */
  uint64_t value;
} linerate_counter;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Returns the text of the last error of the calling thread, "" if there was none. It is valid until the next function
 of this library that fails on this thread. It reads "what failed: why; what to do".
 */
const char *linerate_last_error(void);

/*
 Returns the version of the library.
 */
const char *linerate_version(void);

/*
 Creates a host without ports, which takes a tenth of a second. `options` may be NULL for the defaults.
 */
int linerate_host_new(const struct linerate_options *options, struct linerate_host **host);

/*
 Creates `count` hosts, 1 to LINERATE_MAX_WORKERS, for as many threads, and stores them at `hosts`. They have the
 same addresses and share their ports. Each must call the same functions linerate_open_... in the same order: the
 first call opens the port, the others join it, and the settings of the first call hold. Addresses, routes, listeners
 and UDP sockets are those of one host and are added to each; DHCP gives its lease to all if it is started on the
 first. `steering` is LINERATE_HASH or LINERATE_ARRIVAL. Once a port is open, all hosts must be used: each serves its
 own connections, and packets for a host whose thread does not wait are lost after some time. The port is closed with
 the last host.
 */
int linerate_workers_new(const struct linerate_options *options,
                         size_t count,
                         uint32_t steering,
                         struct linerate_host **hosts);

/*
 Closes the ports of a host and frees it. Connections that are open end without a FIN. Does nothing for NULL. Must
 not be called by a release function. Buffers that the program keeps stay valid.
 */
int linerate_host_free(struct linerate_host *host);

/*
 Waits until all ports carry packets, at most `timeout_ms` milliseconds. Not required: a host serves the ports that
 carry packets, and others once they do. Returns -ETIMEDOUT if a port does not; the text of the error has its state.
 */
int linerate_wait_ready(struct linerate_host *host,
                        uint32_t timeout_ms);

/*
 Opens a TAP interface of the kernel, which is created if it does not exist; for several hosts, it is a multi-queue
 interface. `netns` is the name of its network
 namespace or the path of one; NULL for that of the process. `interface` may be NULL. Returns the number of the
 interface.
 */
int linerate_open_tap(struct linerate_host *host,
                      const char *name,
                      const char *netns,
                      const struct linerate_interface *interface);

/*
 Opens a vhost-user port, whose peer is a virtual machine or a virtio-user port. `mode` is LINERATE_CONNECT or
 LINERATE_LISTEN. `interface` may be NULL. Returns the number of the interface.
 */
int linerate_open_vhost_user(struct linerate_host *host,
                             const char *socket,
                             uint32_t mode,
                             const struct linerate_interface *interface);

/*
 Opens a virtio-user port, whose peer is a vhost-user port, such as one of a switch, with a queue pair for each host.
 Otherwise as linerate_open_vhost_user.
 */
int linerate_open_virtio_user(struct linerate_host *host,
                              const char *socket,
                              uint32_t mode,
                              const struct linerate_interface *interface);

/*
 Opens a memif port. `socket` is a path, or "@name" for an abstract socket. `id` is the number of the interface
 behind the socket, the same at both ends. `secret` may be NULL. Otherwise as linerate_open_vhost_user.
 */
int linerate_open_memif(struct linerate_host *host,
                        const char *socket,
                        uint32_t mode,
                        uint32_t id,
                        const char *secret,
                        const struct linerate_interface *interface);

/*
 Opens an AF_XDP port on an interface of the kernel, which must have one queue for each host that opens it. The
 program receives all of its frames. Parameters as of linerate_open_tap.
 */
int linerate_open_af_xdp(struct linerate_host *host,
                         const char *name,
                         const char *netns,
                         const struct linerate_interface *interface);

/*
 Opens an AF_PACKET port on an interface of the kernel. The kernel receives the frames as well, so it must not have
 addresses of the host. Parameters as of linerate_open_tap.
 */
int linerate_open_af_packet(struct linerate_host *host,
                            const char *name,
                            const char *netns,
                            const struct linerate_interface *interface);

/*
 Parses an endpoint such as "10.9.0.2:80" or "[fd09::2]:80".
 */
int linerate_endpoint_parse(const char *text, struct linerate_endpoint *endpoint);

/*
 Writes an endpoint as text of at most LINERATE_ENDPOINT_TEXT bytes. Returns the length of the text without the zero
 at its end.
 */
int linerate_endpoint_format(const struct linerate_endpoint *endpoint,
                             char *text,
                             size_t size);

/*
 Adds an address with the prefix length of its network, such as "10.9.0.2/24" or "fd09::2/64", to an interface.
 */
int linerate_add_address(struct linerate_host *host,
                         int interface,
                         const char *address);

/*
 Adds a route to a network, such as "0.0.0.0/0" for a default route. `gateway` may be NULL for a network on the link.
 */
int linerate_add_route(struct linerate_host *host,
                       int interface,
                       const char *network,
                       const char *gateway);

/*
 Starts a DHCP client on an interface, which assigns and removes address, default route and MTU while the program
 calls linerate_wait. The address takes 4 to 6 seconds after the server's answer, because others are asked for it
 first. linerate_host_free gives it back.
 */
int linerate_start_dhcp(struct linerate_host *host,
                        int interface);

/*
 Starts stateless address configuration of IPv6 on an interface: a link-local address, and the addresses and routes
 that routers advertise. `kind` is LINERATE_EUI64 or LINERATE_OPAQUE.
 */
int linerate_start_slaac(struct linerate_host *host,
                         int interface,
                         uint32_t kind);

/*
 Adds a neighbour, such as "10.9.0.1", whose Ethernet address of 6 bytes is not resolved and does not change.
 */
int linerate_add_neighbour(struct linerate_host *host,
                           int interface,
                           const char *address,
                           const uint8_t *mac);

/*
 Writes address `number` of an interface, from 0 on, with the prefix length of its network, as text of at most
 LINERATE_ENDPOINT_TEXT bytes. Returns the length of the text without the zero at its end, 0 if there are fewer
 addresses. Addresses of DHCP and SLAAC appear once they are usable.
 */
int linerate_interface_address(struct linerate_host *host,
                               int interface,
                               size_t number,
                               char *text,
                               size_t size);

/*
 Creates a buffer with a copy of `length` bytes.
 */
int linerate_buffer_copy(const void *bytes, size_t length, struct linerate_buffer **buffer);

/*
 Creates a buffer of `length` bytes of the program without a copy. The bytes must stay unchanged until `release` is
 called with `argument`, which happens once, after the buffer was freed and all data sent from it was acknowledged.
 `release` may be NULL for bytes that never change. If the call fails, `release` is not called.
 */
int linerate_buffer_wrap(const void *bytes,
                         size_t length,
                         linerate_release release,
                         void *argument,
                         struct linerate_buffer **buffer);

/*
 Creates a further handle of a buffer, which shares its bytes. Received data that is used after the next
 linerate_wait must be kept by it.
 */
int linerate_buffer_keep(const struct linerate_buffer *buffer, struct linerate_buffer **copy);

/*
 Frees a buffer that the program has created or kept. Does nothing for NULL. Data that was sent from it is not
 affected.
 */
int linerate_buffer_free(struct linerate_buffer *buffer);

/*
 Stores the address and the length of a buffer's bytes. The address is NULL if a peer of a port can still change the
 bytes; linerate_buffer_read copies them then. Either pointer may be NULL.
 */
int linerate_buffer_bytes(const struct linerate_buffer *buffer,
                          const uint8_t **bytes,
                          size_t *length);

/*
 Copies `length` bytes of a buffer, from offset `offset`, to `to`.
 */
int linerate_buffer_read(const struct linerate_buffer *buffer, size_t offset, void *to, size_t length);

/*
 Sets the defaults of connections.
 */
int linerate_tcp_options_init(struct linerate_tcp_options *options);

/*
 Accepts connections to an address and port of the host. The unspecified address stands for all addresses of its IP
 version. Accepted connections start with these options (NULL: the defaults) and this user data. `listener` may be
 NULL.
 */
int linerate_listen(struct linerate_host *host,
                    const struct linerate_endpoint *local,
                    const struct linerate_tcp_options *options,
                    uint64_t user,
                    uint32_t *listener);

/*
 Stops accepting connections. Those that are established continue.
 */
int linerate_unlisten(struct linerate_host *host, uint32_t listener);

/*
 Opens a connection with these options (NULL: the defaults) and this user data. `local` may be NULL; its unspecified
 address and port 0 are chosen by the stack. The connection completes as LINERATE_CONNECTED, or as LINERATE_CLOSED
 with the reason.
 */
int linerate_connect(struct linerate_host *host,
                     const struct linerate_endpoint *local,
                     const struct linerate_endpoint *remote,
                     const struct linerate_tcp_options *options,
                     uint64_t user,
                     uint64_t *connection);

/*
 Sends `length` bytes of a buffer from offset `offset`, without a copy. All of them are queued, or none. The buffer
 may be freed at once; its bytes are released when the peer has acknowledged them. Returns -EAGAIN if the send buffer
 is full; LINERATE_WRITABLE reports space.
 */
int linerate_send(struct linerate_host *host,
                  uint64_t connection,
                  const struct linerate_buffer *buffer,
                  size_t offset,
                  size_t length);

/*
 Sends a copy of `length` bytes. Otherwise as linerate_send.
 */
int linerate_send_copy(struct linerate_host *host, uint64_t connection, const void *bytes, size_t length);

/*
 Reports that the program does not need `length` bytes of received data any more, which opens the receive window.
 */
int linerate_consumed(struct linerate_host *host,
                      uint64_t connection,
                      size_t length);

/*
 Closes the sending side after all queued data. Receiving continues until the peer closes.
 */
int linerate_close(struct linerate_host *host, uint64_t connection);

/*
 Ends a connection at once with a reset. LINERATE_CLOSED follows.
 */
int linerate_abort(struct linerate_host *host, uint64_t connection);

/*
 Whether acknowledged data of a connection is reported as LINERATE_ACKNOWLEDGED: 1 or 0, which is the default.
 */
int linerate_report_acknowledged(struct linerate_host *host, uint64_t connection, uint32_t report);

/*
 Stores the number of bytes that linerate_send accepts now.
 */
int linerate_send_space(struct linerate_host *host, uint64_t connection, size_t *bytes);

/*
 Stores both ends of a connection. Either pointer may be NULL.
 */
int linerate_endpoints(struct linerate_host *host,
                       uint64_t connection,
                       struct linerate_endpoint *local,
                       struct linerate_endpoint *remote);

/*
 Stores the settings of a connection.
 */
int linerate_tcp_options_get(struct linerate_host *host,
                             uint64_t connection,
                             struct linerate_tcp_options *options);

/*
 Changes the settings of a connection. Those of the handshake have no effect any more.
 */
int linerate_tcp_options_set(struct linerate_host *host,
                             uint64_t connection,
                             const struct linerate_tcp_options *options);

/*
 Opens a UDP socket with this user data at an address and port of the host. The unspecified address stands for all
 addresses of its IP version, and port 0 is chosen by the stack.
 */
int linerate_udp_open(struct linerate_host *host,
                      const struct linerate_endpoint *local,
                      uint64_t user,
                      uint64_t *socket);

/*
 Limits a socket to one remote end. Datagrams need no destination then, and their errors are reported.
 */
int linerate_udp_connect(struct linerate_host *host, uint64_t socket, const struct linerate_endpoint *remote);

/*
 Sends `length` bytes of a buffer from offset `offset` as a datagram, without a copy. `to` may be NULL for a
 connected socket.
 */
int linerate_udp_send(struct linerate_host *host,
                      uint64_t socket,
                      const struct linerate_endpoint *to,
                      const struct linerate_buffer *buffer,
                      size_t offset,
                      size_t length);

/*
 Sends a copy of `length` bytes as a datagram. `to` may be NULL for a connected socket.
 */
int linerate_udp_send_copy(struct linerate_host *host,
                           uint64_t socket,
                           const struct linerate_endpoint *to,
                           const void *bytes,
                           size_t length);

/*
 Receives datagrams to a multicast group, such as "239.1.2.3" or "ff05::7", on an interface or by
 LINERATE_ANY_INTERFACE. The socket must be bound to the unspecified address or to the group. Returns 1, or 0 if the
 socket was a member before.
 */
int linerate_udp_join(struct linerate_host *host,
                      uint64_t socket,
                      const char *group,
                      int interface);

/*
 Leaves a multicast group. Returns 1, or 0 if the socket was no member.
 */
int linerate_udp_leave(struct linerate_host *host, uint64_t socket, const char *group, int interface);

/*
 Sets the hop limits of datagrams to hosts and to multicast groups, 64 and 1 by default. Neither may be 0.
 */
int linerate_udp_set_hop_limits(struct linerate_host *host,
                                uint64_t socket,
                                uint8_t hop_limit,
                                uint8_t group_hop_limit);

/*
 Closes a UDP socket. Its completions that are not in a batch are dropped.
 */
int linerate_udp_close(struct linerate_host *host, uint64_t socket);

/*
 Sends what the program has queued, and waits for completions, at most `timeout_ms` milliseconds. Stores the address
 of an array of at most `max` completions (1 to LINERATE_MAX_BATCH), and returns its length, which is 0 after the
 timeout. The array and its data are valid until the next call of this function; linerate_buffer_keep keeps data
 longer. One call receives at most one burst of each receive queue, and nothing while completions are pending.
 */
int linerate_wait(struct linerate_host *host,
                  const struct linerate_completion **completions,
                  size_t max,
                  uint32_t timeout_ms);

/*
 Sets the user data of a connection, also in the rest of the batch. Returns -ENOTCONN if the connection has ended.
 */
int linerate_set_user(struct linerate_host *host,
                      uint64_t connection,
                      uint64_t user);

/*
 Stores the first `max` counters in `counters`, and returns the number of all counters, which may be more. `counters`
 may be NULL if `max` is 0.
 */
int linerate_counters(struct linerate_host *host,
                      struct linerate_counter *counters,
                      size_t max);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LINERATE_H */
