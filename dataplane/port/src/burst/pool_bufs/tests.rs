use super::*;
use mem::copy::Portable;
use mem::pool::{Cache, Pages, Pool, PoolSpec};

const HEADROOM: usize = 64;

fn cache(size: u16) -> Cache {
    Pool::new(PoolSpec { buffers: 32, size, pages: Pages::Ordinary }).unwrap().cache()
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 256) as u8).collect()
}

/// Adds `frame` to `burst`, in buffers with 64 bytes of headroom.
fn load(cache: &mut Cache, burst: &mut Burst, frame: &[u8]) {
    let data = cache.pool().spec().size as usize - HEADROOM;
    let mut buffers = frame.chunks(data).map(|piece| {
        let mut buffer = cache.alloc().unwrap();
        buffer.reset(HEADROOM);
        buffer.append(piece.len()).unwrap().copy_from_slice(piece);
        buffer
    });
    let first = buffers.next().unwrap();
    burst.push_buffers(first, buffers).unwrap();
}

fn read(burst: &Burst, i: usize) -> Vec<u8> {
    let mut read = vec![0; burst.frame_len(i)];
    assert_eq!(burst.frame(i).copy_to::<Portable>(&mut read), read.len());
    read
}

fn taken(cache: &mut Cache, burst: &Burst, i: usize) -> Vec<u8> {
    let mut all = vec![];
    burst.take_buffers(i, |buffer| {
        all.extend_from_slice(buffer.data());
        cache.free(buffer);
    });
    all
}

#[test]
fn own_packet_keeps_its_head_when_later_heads_load() {
    let mut burst = Burst::new();
    burst.begin(0);
    assert!(burst.push_own(&bytes(60)) && burst.push_own(&bytes(61)));
    burst.load_heads::<Portable>();
    burst.leave_heads();
    assert_eq!((read(&burst, 0), read(&burst, 1)), (bytes(60), bytes(61)));
}

#[test]
fn pool_packet_reads_like_others_and_is_taken_as_received() {
    let mut cache = cache(500);
    let mut burst = Burst::new();
    for len in [1, 60, 128, 129, 308, 309, 436, 437, 2000] {
        burst.begin(0);
        load(&mut cache, &mut burst, &bytes(len));
        burst.load_heads::<Portable>();
        assert_eq!(read(&burst, 0), bytes(len));
        assert_eq!(burst.pool_bufs(0), Some(len.div_ceil(436)));
        assert_eq!(taken(&mut cache, &burst, 0), bytes(len), "{len}");
        assert_eq!(burst.pool_bufs(0), None, "it cannot be taken twice");
    }
    assert_eq!(cache.counters().frees, cache.counters().allocations());
}

#[test]
fn filtered_packets_keep_their_buffers_apart() {
    let (mut cache, mut burst) = (cache(500), Burst::new());
    burst.begin(0);
    load(&mut cache, &mut burst, &bytes(60));
    burst.load_heads::<Portable>();
    burst.filter(0, |_, _, _| false);
    assert!(burst.push_own(&bytes(61)));
    assert_eq!((burst.pool_bufs(0), burst.take_run(&mut [0].as_slice()).count()), (Some(0), 0));
    assert_eq!(burst.unload().map(|buffer| cache.free(buffer)).count(), 1);
}

#[test]
fn untaken_buffers_are_freed() {
    let mut burst = Burst::new();
    let mut tight = cache(HEADROOM as u16 + 100);
    burst.begin(0);
    load(&mut tight, &mut burst, &bytes(150));
    burst.load_heads::<Portable>();
    assert_eq!((burst.pool_bufs(0), read(&burst, 0)), (Some(2), bytes(150)));
    tight.free_all(burst.unload());
    assert_eq!(tight.counters().frees, 2);
}

#[test]
fn piecewise_copy_yields_the_whole_frame() {
    let (mut cache, mut burst) = (cache(300), Burst::new());
    burst.begin(0);
    load(&mut cache, &mut burst, &bytes(1000));
    burst.load_heads::<Portable>();
    for size in [1, 64, 128, 333, 1000, 1500] {
        let (mut all, mut piece) = (vec![], vec![0; size]);
        while all.len() < 1000 {
            let n = burst.frame(0).copy_behind::<Portable>(all.len(), &mut piece);
            all.extend_from_slice(&piece[..n]);
        }
        assert_eq!(all, bytes(1000), "{size}");
    }
}
