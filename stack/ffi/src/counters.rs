//! Counters of a host.

use crate::call::call_host;
use crate::host::linerate_host;
use crate::pointer::store;
use std::ffi::{c_char, c_int};

/// Maximum length of a counter's name in bytes, with the zero at its end.
pub const LINERATE_COUNTER_NAME: usize = 32;

/// A counter of the stack.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct linerate_counter {
    /// Name, which is Linux's (nstat) where Linux has the counter.
    pub name: [c_char; LINERATE_COUNTER_NAME],
    /// Value since the host was created.
    pub value: u64,
}

fn counter(name: &str, value: u64) -> linerate_counter {
    let mut bytes = [0; LINERATE_COUNTER_NAME];
    let last = LINERATE_COUNTER_NAME - 1;
    bytes[..last].iter_mut().zip(name.bytes()).for_each(|(to, byte)| *to = c_char::from_ne_bytes([byte]));
    linerate_counter { name: bytes, value }
}

/// Stores the first `max` counters in `counters`, and returns the number of all counters, which may be more. `counters`
/// may be NULL if `max` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_counters(
    host: *mut linerate_host,
    counters: *mut linerate_counter,
    max: usize,
) -> c_int {
    // SAFETY: by the contract of the interface.
    unsafe {
        call_host(host, |inner| {
            let max = if counters.is_null() { 0 } else { max };
            let all = inner.queue.stack().counters().named();
            let mut count = 0;
            for (at, (name, value)) in all.enumerate() {
                if at < max {
                    store(counters.add(at), counter(name, value));
                }
                count += 1;
            }
            Ok(count)
        })
    }
}
