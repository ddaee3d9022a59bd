//! Opens an `AF_PACKET` port on its interface. The sockets are closed with the port, at the latest when the process
//! exits.

use super::options::Options;
use super::rx::Rx;
use super::socket::{self, BoundSocket};
use super::sys;
use super::tx::Tx;
use crate::interface::{
    Doorbell, HeldResource, InterfaceError, InterfacePort, Kind, LinkState, Opened, Pair, Place, Watch,
};
use crate::{PortControl, RxQueue, TxQueue};
use rustix::fd::AsFd;
use rustix::io::Errno;
use std::cell::Cell;

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

    fn place(&self) -> &Place {
        &self.options.place
    }

    fn open(&self, watch: &Watch) -> Result<Opened, InterfaceError> {
        let made = socket::make(&self.options, watch)?;
        let (regions, bytes) = (made.len(), self.options.bytes());
        let mut features = vec!["vnet-header"];
        if regions > 1 {
            features.push("fanout");
        }
        let sockets: Vec<_> = made.iter().map(|made| made.socket.clone()).collect();
        let before = Cell::new(0);
        Ok(Opened {
            rss: None,
            missed: Box::new(move || {
                // The kernel resets its counter on each query.
                let since: u64 = sockets.iter().map(|socket| u64::from(sys::missed(socket.as_fd()))).sum();
                before.set(before.get() + since);
                before.get()
            }),
            pairs: pairs(made, watch.link()).map_err(self.options.place.refused("making an epoll set"))?,
            features,
            size: self.options.blocks,
            memory: (regions, bytes * regions as u64),
            keep: HeldResource::new(()),
        })
    }
}

fn pairs(made: Vec<BoundSocket>, link: &LinkState) -> Result<Vec<Pair>, Errno> {
    let pair = |made: BoundSocket| {
        let tx = Tx::new(made.socket.clone(), link.clone());
        Ok((Box::new(Rx::new(made, Doorbell::new()?)) as Box<dyn RxQueue>, Box::new(tx) as Box<dyn TxQueue>))
    };
    made.into_iter().map(pair).collect()
}
