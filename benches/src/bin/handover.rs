//! Measures the transfer of an item between cores, or the allocation of a buffer: our SPSC ring, `crossbeam`, `rtrb`,
//! or our pool cache. Prints one reading in nanoseconds per item; `cargo xtask bench rings` interleaves readings of all
//! kinds with those of DPDK's `rte_ring` and `rte_mempool`.

use anyhow::{Result, bail, ensure};
use clap::{Parser, ValueEnum};
use crossbeam_queue::ArrayQueue;
use measure::pinning::pin;
use mem::pool::{Pages, Pool, PoolSpec};
use ring::spsc;
use std::hint::{black_box, spin_loop};
use std::sync::{Arc, Barrier};
use std::time::Instant;

/// Ring size in items, as in DPDK's applications.
const RING: usize = 1024;
/// Buffers of a pool.
const BUFFERS: u32 = 8191;
/// Maximum number of items per call.
const MAX_BATCH: usize = 64;

#[derive(Parser)]
struct Arguments {
    /// Subject to measure
    #[arg(value_enum)]
    what: Subject,
    /// Items per call
    #[arg(value_parser = clap::value_parser!(u64).range(1..=MAX_BATCH as u64))]
    burst: u64,
    /// CPU of the sender
    #[arg(long, default_value_t = 0)]
    from: usize,
    /// CPU of the receiver
    #[arg(long, default_value_t = 1)]
    to: usize,
    /// Items per reading
    #[arg(long, default_value_t = 20_000_000)]
    items: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Subject {
    /// Our ring: single items, or iterators on both sides
    Ring,
    /// Our ring with slices on both sides, as in the interface of `rte_ring`
    RingSlices,
    /// `crossbeam_queue::ArrayQueue`, single items only
    Crossbeam,
    /// `rtrb`: single items, or chunks
    Rtrb,
    /// Buffers of our pool, allocated and freed on the receiver's CPU
    Pool,
}

/// Moves `arguments.items` items between two CPUs and returns the nanoseconds per item. `send` and `receive` get the
/// number of remaining items and return the number moved. Items are consecutive numbers, and the receiver returns their
/// sum. The time starts when both threads are on their CPUs.
fn between(
    arguments: &Arguments,
    mut send: impl FnMut(u64, u64) -> u64 + Send,
    mut receive: impl FnMut(u64) -> (u64, u64) + Send,
) -> Result<f64> {
    let (items, ready) = (arguments.items, Barrier::new(2));
    // Fails here if either CPU cannot be used: later, the other thread would wait for ever. This thread is the
    // receiver.
    pin(arguments.from)?;
    pin(arguments.to)?;
    let (sum, took) = std::thread::scope(|scope| {
        // Moves the sender's state to the sender's stack, so that it shares no cache line with the receiver's.
        let waiting = &ready;
        let sender = scope.spawn(move || -> Result<()> {
            let pinned = pin(arguments.from);
            waiting.wait();
            pinned?;
            let mut sent = 0;
            while sent < items {
                match send(sent, items - sent) {
                    0 => spin_loop(),
                    n => sent += n,
                }
            }
            Ok(())
        });
        ready.wait();
        let (mut came, mut sum, began) = (0, 0_u64, Instant::now());
        while came < items {
            match receive(items - came) {
                (0, _) => spin_loop(),
                (n, part) => (came, sum) = (came + n, sum.wrapping_add(part)),
            }
        }
        let took = began.elapsed();
        sender.join().map_err(|_| anyhow::anyhow!("the sender panicked"))??;
        anyhow::Ok((sum, took))
    })?;
    ensure!(sum == (0..items).fold(0, u64::wrapping_add), "items were lost or came twice");
    Ok(took.as_nanos() as f64 / items as f64)
}

fn ours_one(arguments: &Arguments) -> Result<f64> {
    let (mut producer, mut consumer) = spsc::ring::<u64>(RING);
    between(
        arguments,
        move |next, _| u64::from(producer.push(next).is_ok()),
        |_| consumer.pop().map_or((0, 0), |item| (1, item)),
    )
}

fn ours(arguments: &Arguments) -> Result<f64> {
    let (mut producer, mut consumer) = spsc::ring::<u64>(RING);
    let burst = arguments.burst;
    let send = move |next, left: u64| producer.push_all(&mut (next..next + left.min(burst))) as u64;
    let receive = |_| {
        let drain = consumer.drain(burst as usize);
        (drain.len() as u64, drain.fold(0, u64::wrapping_add))
    };
    between(arguments, send, receive)
}

fn ours_slices(arguments: &Arguments) -> Result<f64> {
    let (mut producer, mut consumer) = spsc::ring::<u64>(RING);
    let (mut batch, mut came) = ([0; MAX_BATCH], [0; MAX_BATCH]);
    let burst = arguments.burst;
    let send = move |next, left: u64| {
        let batch = &mut batch[..left.min(burst) as usize];
        batch.iter_mut().zip(next..).for_each(|(place, item)| *place = item);
        producer.push_slice(batch) as u64
    };
    let receive = |_| {
        let n = consumer.pop_slice(&mut came[..burst as usize]);
        (n as u64, came[..n].iter().copied().fold(0, u64::wrapping_add))
    };
    between(arguments, send, receive)
}

fn crossbeam(arguments: &Arguments) -> Result<f64> {
    let queue = ArrayQueue::<u64>::new(RING);
    between(
        arguments,
        |next, _| u64::from(queue.push(next).is_ok()),
        |_| queue.pop().map_or((0, 0), |item| (1, item)),
    )
}

fn rtrb(arguments: &Arguments) -> Result<f64> {
    let burst = arguments.burst as usize;
    let (mut producer, mut consumer) = rtrb::RingBuffer::<u64>::new(RING);
    let send = move |next, left: u64| {
        let n = producer.slots().min(burst).min(left as usize);
        match producer.write_chunk_uninit(n) {
            Ok(chunk) => chunk.fill_from_iter(next..next + n as u64) as u64,
            Err(_) => 0,
        }
    };
    let receive = |_| {
        let n = consumer.slots().min(burst);
        match consumer.read_chunk(n) {
            Ok(chunk) => (n as u64, chunk.into_iter().fold(0, u64::wrapping_add)),
            Err(_) => (0, 0),
        }
    };
    between(arguments, send, receive)
}

fn rtrb_one(arguments: &Arguments) -> Result<f64> {
    let (mut producer, mut consumer) = rtrb::RingBuffer::<u64>::new(RING);
    between(
        arguments,
        move |next, _| u64::from(producer.push(next).is_ok()),
        |_| consumer.pop().map_or((0, 0), |item| (1, item)),
    )
}

/// Allocates and frees single buffers on one CPU; nanoseconds per pair.
fn pool_one(arguments: &Arguments) -> Result<f64> {
    pin(arguments.to)?;
    let mut cache = buffers()?.cache();
    let began = Instant::now();
    for _ in 0..arguments.items {
        if let Some(buffer) = black_box(cache.alloc()) {
            cache.free(buffer);
        }
    }
    let took = began.elapsed();
    ensure!(cache.counters().frees == arguments.items, "the pool was empty at times");
    Ok(took.as_nanos() as f64 / arguments.items as f64)
}

/// Allocates and frees several buffers per call on one CPU; nanoseconds per buffer.
fn pool_bulk(arguments: &Arguments) -> Result<f64> {
    pin(arguments.to)?;
    let (mut cache, mut taken) = (buffers()?.cache(), Vec::with_capacity(MAX_BATCH));
    let rounds = arguments.items / arguments.burst;
    let began = Instant::now();
    for _ in 0..rounds {
        cache.alloc_bulk(black_box(&mut taken), arguments.burst as usize);
        cache.free_bulk(black_box(&mut taken));
    }
    let took = began.elapsed();
    let moved = rounds * arguments.burst;
    ensure!(cache.counters().frees == moved, "the pool was empty at times");
    Ok(took.as_nanos() as f64 / moved as f64)
}

fn buffers() -> Result<Arc<Pool>> {
    Ok(Pool::new(PoolSpec { buffers: BUFFERS, size: 2048, pages: Pages::Ordinary })?)
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let nanoseconds = match (arguments.what, arguments.burst) {
        (Subject::Ring, 1) => ours_one(&arguments),
        (Subject::Ring, _) => ours(&arguments),
        (Subject::RingSlices, _) => ours_slices(&arguments),
        (Subject::Crossbeam, 1) => crossbeam(&arguments),
        (Subject::Crossbeam, _) => bail!("crossbeam passes single items: use a burst of 1"),
        (Subject::Rtrb, 1) => rtrb_one(&arguments),
        (Subject::Rtrb, _) => rtrb(&arguments),
        (Subject::Pool, 1) => pool_one(&arguments),
        (Subject::Pool, _) => pool_bulk(&arguments),
    }?;
    println!("{nanoseconds:.3}");
    Ok(())
}
