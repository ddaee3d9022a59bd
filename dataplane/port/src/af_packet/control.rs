//! Opens an `AF_PACKET` port on its interface. The sockets are closed with the port, at the latest when the process
//! exits.

use super::options::Options;
use super::rx::Rx;
use super::socket::{self, BoundSocket};
use super::sys;
use super::tx::Tx;
use crate::interface::{
    Doorbell, HeldResource, InterfaceError, InterfacePort, Kind, LinkState, Opened, Pair, Place, Stopped,
    Watch,
};
use crate::{PortControl, QueueState};
use rustix::fd::AsFd;
use std::cell::Cell;

/// A port that continues the one of another process ([`PortControl::as_handover`]). Until then it does nothing.
///
/// # Errors
/// Invalid options.
pub fn successor(options: Options) -> Result<Box<dyn PortControl>, InterfaceError> {
    options.check()?;
    Ok(Box::new(InterfacePort::successor(AfPacket { options })))
}

/// Opens a port on its interface. Its queues run once the engine has attached it.
///
/// # Errors
/// [`InterfaceError`] names the cause and the remedy. Nothing remains on the interface then.
pub fn open(options: Options) -> Result<Box<dyn PortControl>, InterfaceError> {
    options.check()?;
    Ok(Box::new(InterfacePort::open(AfPacket { options })?))
}

#[derive(Debug)]
struct AfPacket {
    options: Options,
}

impl Kind for AfPacket {
    const NAME: &'static str = "af_packet";
    const HANDS_OVER: bool = true;

    fn place(&self) -> &Place {
        &self.options.place
    }

    fn open(&self, watch: &Watch) -> Result<Opened, InterfaceError> {
        let made = socket::make(&self.options, watch)?;
        self.opened(made.into_iter().map(|made| (made, QueueState::Fresh)).collect(), 0, watch)
    }

    fn adopt(&self, watch: &Watch, stopped: Stopped) -> Result<Opened, InterfaceError> {
        let Stopped { queues, missed } = stopped;
        if queues.len() != usize::from(self.options.queue_pairs) {
            let (place, has, wants) =
                (self.options.place.clone(), queues.len() as u16, self.options.queue_pairs);
            return Err(InterfaceError::Queues { place, has, wants });
        }
        let adopt = |(socket, state)| Ok((socket::adopt(&self.options, socket)?, state));
        let made = queues.into_iter().map(adopt).collect::<Result<_, InterfaceError>>()?;
        self.opened(made, missed, watch)
    }
}

impl AfPacket {
    /// `missed`: number of frames that the kernel dropped before.
    fn opened(
        &self,
        made: Vec<(BoundSocket, QueueState)>,
        missed: u64,
        watch: &Watch,
    ) -> Result<Opened, InterfaceError> {
        let (regions, bytes) = (made.len(), self.options.bytes());
        let mut features = vec!["vnet-header"];
        if regions > 1 {
            features.push("fanout");
        }
        let sockets: Vec<_> = made.iter().map(|(made, _)| made.socket.clone()).collect();
        let before = Cell::new(missed);
        let counted = sockets.clone();
        Ok(Opened {
            rss: None,
            missed: Box::new(move || {
                // The kernel resets its counter on each query.
                let since: u64 = counted.iter().map(|socket| u64::from(sys::missed(socket.as_fd()))).sum();
                before.set(before.get() + since);
                before.get()
            }),
            pairs: made
                .into_iter()
                .map(|(made, state)| self.pair(made, &state, watch.link()))
                .collect::<Result<_, _>>()?,
            sockets,
            features,
            size: self.options.blocks,
            memory: (regions, bytes * regions as u64),
            keep: HeldResource::new(()),
        })
    }

    fn pair(&self, made: BoundSocket, state: &QueueState, link: &LinkState) -> Result<Pair, InterfaceError> {
        let place = &self.options.place;
        let doorbell = Doorbell::new().map_err(place.refused("making an epoll set"))?;
        let tx = Tx::new(made.socket.clone(), link.clone());
        let rx =
            Rx::new(made, doorbell, state).map_err(|why| InterfaceError::NotAdopted(place.clone(), why))?;
        Ok((Box::new(rx), Box::new(tx)))
    }
}
