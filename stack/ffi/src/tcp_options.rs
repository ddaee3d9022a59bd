//! Settings of a connection.

use crate::call::{Failure, call, invalid};
use crate::pointer::{store, wanted};
use stack::tcp::{CongestionAlgorithm, Options};
use std::ffi::c_int;
use std::time::Duration;

/// CUBIC (RFC 9438).
pub const LINERATE_CUBIC: u32 = 0;
/// NewReno (RFC 6582).
pub const LINERATE_NEW_RENO: u32 = 1;
/// BBR.
pub const LINERATE_BBR: u32 = 2;

/// Longest delay of an acknowledgement (RFC 9293 section 3.8.6.3).
const MAX_DELAYED_ACK: u32 = 499;

/// Settings of a connection. linerate_tcp_options_init sets the defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct linerate_tcp_options {
    /// LINERATE_CUBIC, LINERATE_NEW_RENO or LINERATE_BBR.
    pub congestion: u32,
    /// Idle time before the first keep-alive probe in milliseconds; 0 sends none.
    pub keep_alive_ms: u32,
    /// Time for which sent data may stay unacknowledged before the connection ends, in milliseconds.
    pub user_timeout_ms: u32,
    /// Maximum delay of an acknowledgement in milliseconds, at most 499.
    pub delayed_ack_ms: u32,
    /// Duration of TIME-WAIT in milliseconds.
    pub time_wait_ms: u32,
    /// 1 sends small segments although data is unacknowledged (no Nagle algorithm).
    pub no_delay: u8,
    /// 1 sends only full segments until it is 0 again.
    pub cork: u8,
    /// 1 negotiates explicit congestion notification.
    pub ecn: u8,
    /// 1 requests and accepts cookies of TCP Fast Open.
    pub fast_open: u8,
}

impl From<Options> for linerate_tcp_options {
    fn from(o: Options) -> Self {
        let millis = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        let congestion = match o.congestion {
            CongestionAlgorithm::Cubic => LINERATE_CUBIC,
            CongestionAlgorithm::NewReno => LINERATE_NEW_RENO,
            CongestionAlgorithm::Bbr => LINERATE_BBR,
        };
        Self {
            congestion,
            keep_alive_ms: o.keep_alive.map_or(0, millis),
            user_timeout_ms: millis(o.user_timeout),
            delayed_ack_ms: millis(o.delayed_ack),
            time_wait_ms: millis(o.time_wait),
            no_delay: o.no_delay.into(),
            cork: o.cork.into(),
            ecn: o.ecn.into(),
            fast_open: o.fast_open.into(),
        }
    }
}

pub(crate) fn options(from: &linerate_tcp_options, to: Options) -> Result<Options, Failure> {
    let flag = |name: &str, value: u8| match value {
        0 | 1 => Ok(value == 1),
        _ => Err(invalid(format_args!("options.{name} is {value}"), "pass 0 or 1")),
    };
    let congestion = match from.congestion {
        LINERATE_CUBIC => CongestionAlgorithm::Cubic,
        LINERATE_NEW_RENO => CongestionAlgorithm::NewReno,
        LINERATE_BBR => CongestionAlgorithm::Bbr,
        other => {
            let remedy = "pass LINERATE_CUBIC, LINERATE_NEW_RENO or LINERATE_BBR";
            return Err(invalid(format_args!("options.congestion is {other}"), remedy));
        }
    };
    if from.delayed_ack_ms > MAX_DELAYED_ACK {
        let reason = format_args!("options.delayed_ack_ms is {}", from.delayed_ack_ms);
        return Err(invalid(reason, "pass at most 499"));
    }
    if from.user_timeout_ms == 0 {
        let remedy = "set the defaults by linerate_tcp_options_init first";
        return Err(invalid("options.user_timeout_ms is 0", remedy));
    }
    let millis = |time: u32| Duration::from_millis(time.into());
    Ok(Options {
        congestion,
        keep_alive: (from.keep_alive_ms > 0).then(|| millis(from.keep_alive_ms)),
        user_timeout: millis(from.user_timeout_ms),
        delayed_ack: millis(from.delayed_ack_ms),
        time_wait: millis(from.time_wait_ms),
        no_delay: flag("no_delay", from.no_delay)?,
        cork: flag("cork", from.cork)?,
        ecn: flag("ecn", from.ecn)?,
        fast_open: flag("fast_open", from.fast_open)?,
        ..to
    })
}

/// The options at a pointer; the defaults if it is null.
///
/// # Safety
/// The pointer is null or points to options.
pub(crate) unsafe fn optional_options(at: *const linerate_tcp_options) -> Result<Options, Failure> {
    // SAFETY: by the caller's contract.
    unsafe { at.as_ref() }.map_or_else(|| Ok(Options::default()), |from| options(from, Options::default()))
}

/// Sets the defaults of connections.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_tcp_options_init(options: *mut linerate_tcp_options) -> c_int {
    call(|| {
        wanted(options, "options")?;
        // SAFETY: not null, so memory for options by the contract of the interface.
        unsafe { store(options, Options::default().into()) };
        Ok(0)
    })
}
