//! Timers of a session: probes of silent peers, and bundles that were abandoned.

use crate::limits;
use crate::session::{Kind, Liveness, Session, SessionError};
use openflow::{ErrorCode, Message};
use port::Now;
use std::time::Duration;

fn after(start: Now, time: Duration) -> Now {
    Now(start.0.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
}

/// Does what is due, and returns the time of the next call.
///
/// # Errors
/// If the session must end.
pub(crate) fn tick(session: &mut Session, interval: Duration, now: Now) -> Result<Option<Now>, SessionError> {
    if let Some(error) = session.ended {
        return Err(error);
    }
    if session.dialect.is_none() {
        let end = after(session.liveness.heard, limits::HANDSHAKE);
        return if end <= now { Err(SessionError::Handshake) } else { Ok(Some(end)) };
    }
    let bundles = discard_idle(session, now);
    if std::mem::take(&mut session.liveness.reads) {
        session.liveness = Liveness::new(now);
    }
    let deadline = if session.output.is_full() {
        let end = after(session.liveness.heard, limits::STALLED);
        if end <= now {
            return Err(SessionError::Stalled);
        }
        Some(end)
    } else {
        probe(session, interval, now)?
    };
    Ok(bundles.into_iter().chain(deadline).min())
}

/// Probes a peer that was silent for `interval`, or for longer at the management socket.
fn probe(session: &mut Session, interval: Duration, now: Now) -> Result<Option<Now>, SessionError> {
    let interval = if session.kind == Kind::Management { limits::MANAGEMENT_PROBE } else { interval };
    if interval.is_zero() {
        return Ok(None);
    }
    let due = |probes: u32| after(session.liveness.heard, interval.saturating_mul(probes + 1));
    let (probes, at) = (session.liveness.probes, due(session.liveness.probes));
    if at > now {
        return Ok(Some(at));
    }
    if probes >= limits::PROBES {
        return Err(SessionError::Silent);
    }
    // After a late call, the next probe is still an interval away.
    let next = after(now, interval).max(due(probes + 1));
    session.liveness.probes += 1;
    // Every version has this message.
    let _ = session.send(&Message::EchoRequest(Vec::new()), 0);
    Ok(Some(next))
}

/// Discards bundles that got no message for a time, and returns when the next one is due.
fn discard_idle(session: &mut Session, now: Now) -> Option<Now> {
    let is_idle = |used: Now| after(used, limits::BUNDLE_IDLE) <= now;
    let idle: Vec<_> = session.bundles.extract_if(.., |_, bundle| is_idle(bundle.used)).collect();
    for (_, bundle) in idle {
        session.refuse(ErrorCode::BundleTimeout, &bundle.opened);
    }
    session.bundles.values().map(|bundle| after(bundle.used, limits::BUNDLE_IDLE)).min()
}
