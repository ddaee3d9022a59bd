/* DPDK's rte_ring between two cores and its rte_mempool on one: what benches/src/bin/handover.rs does with ours, in
 * nanoseconds an item. Arguments: EAL's, then --, then rte_ring or rte_mempool, items per call, number of items. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_mempool.h>
#include <rte_pause.h>
#include <rte_ring.h>

#define RING 1024
#define BUFFERS 8191
#define MOST 64
#define CACHE 256

static struct rte_ring *ring;
static uint64_t items;
static unsigned burst;

static int send_all(void *unused)
{
	uint64_t sent = 0;
	void *batch[MOST];
	(void)unused;
	while (sent < items) {
		unsigned n = items - sent < burst ? items - sent : burst;
		for (unsigned i = 0; i < n; i++)
			batch[i] = (void *)(uintptr_t)(sent + i);
		n = rte_ring_sp_enqueue_burst(ring, batch, n, NULL);
		if (n == 0)
			rte_pause();
		sent += n;
	}
	return 0;
}

static double receive_all(void)
{
	uint64_t came = 0, sum = 0, wanted = 0, from;
	void *batch[MOST];
	double took;
	from = rte_rdtsc();
	while (came < items) {
		unsigned n = rte_ring_sc_dequeue_burst(ring, batch, burst, NULL);
		if (n == 0)
			rte_pause();
		for (unsigned i = 0; i < n; i++)
			sum += (uintptr_t)batch[i];
		came += n;
	}
	took = (rte_rdtsc() - from) * 1e9 / rte_get_tsc_hz() / items;
	for (uint64_t i = 0; i < items; i++)
		wanted += i;
	if (sum != wanted)
		rte_exit(EXIT_FAILURE, "items were lost or came twice\n");
	return took;
}

static double between(void)
{
	unsigned other = rte_get_next_lcore(-1, 1, 0);
	double took;
	rte_eal_remote_launch(send_all, NULL, other);
	took = receive_all();
	rte_eal_mp_wait_lcore();
	return took;
}

static double pool(struct rte_mempool *pool)
{
	void *batch[MOST];
	uint64_t rounds = items / burst, from = rte_rdtsc();
	for (uint64_t i = 0; i < rounds; i++) {
		if (rte_mempool_get_bulk(pool, batch, burst) != 0)
			rte_exit(EXIT_FAILURE, "the pool was empty\n");
		rte_mempool_put_bulk(pool, batch, burst);
	}
	return (rte_rdtsc() - from) * 1e9 / rte_get_tsc_hz() / (rounds * burst);
}

int main(int argc, char **argv)
{
	int used = rte_eal_init(argc, argv);
	struct rte_mempool *buffers;
	if (used < 0)
		return EXIT_FAILURE;
	argc -= used;
	argv += used;
	burst = argc == 4 ? strtoul(argv[2], NULL, 10) : 0;
	if (burst < 1 || burst > MOST)
		rte_exit(EXIT_FAILURE, "usage: rte_ring|rte_mempool BURST ITEMS, with a burst of 1 to %d\n", MOST);
	items = strtoull(argv[3], NULL, 10);
	ring = rte_ring_create("hand-over", RING, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
	buffers = rte_mempool_create("buffers", BUFFERS, 2048, CACHE, 0, NULL, NULL, NULL, NULL, SOCKET_ID_ANY, 0);
	if (ring == NULL || buffers == NULL)
		rte_exit(EXIT_FAILURE, "no memory\n");
	printf("%.3f\n", strcmp(argv[1], "rte_ring") == 0 ? between() : pool(buffers));
	return rte_eal_cleanup();
}
