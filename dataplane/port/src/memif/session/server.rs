//! Server session: takes over the regions and rings of the client.

use super::handover::Described;
use super::{Attached, End, NAME, Step, disconnected, init, own_name, protocol_error, rejected, unexpected};
use crate::PortFault;
use crate::handover::duplicate;
use crate::memif::buffers::{Borrowed, MAX_REACH, address};
use crate::memif::message::{AddRing, Hello, Init, Message, VERSION, field};
use crate::memif::options::{MAX_LOG2, Options};
use crate::memif::queue::{Queue, Rings};
use crate::memif::ring::Ring;
use crate::{eventfd, memory};
use mem::{GuestMemory, Region, RegionSpec};
use rustix::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Maximum number of regions (`ETH_MEMIF_MAX_REGION_NUM`, `MEMIF_MAX_REGION`).
const MAX_REGIONS: u16 = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Before INIT.
    Opening,
    /// Regions and rings are added.
    Adding,
    Running,
}

/// A ring as announced by the client.
#[derive(Debug)]
struct Announced {
    ring: AddRing,
    wake: Arc<OwnedFd>,
}

/// Session with a client.
#[derive(Debug)]
pub(in crate::memif) struct ServerSession {
    options: Options,
    stage: Stage,
    regions: Vec<Arc<Region>>,
    /// The file of each region.
    files: Vec<OwnedFd>,
    to_server: Vec<Announced>,
    to_client: Vec<Announced>,
}

impl ServerSession {
    pub(in crate::memif) fn new(options: Options) -> Self {
        Self {
            options,
            stage: Stage::Opening,
            regions: vec![],
            files: vec![],
            to_server: vec![],
            to_client: vec![],
        }
    }

    pub(super) fn first_message(&self) -> Message {
        Message::Hello(Hello {
            name: own_name(),
            min_version: VERSION,
            max_version: VERSION,
            max_region: MAX_REGIONS - 1,
            max_to_client: self.options.queue_pairs - 1,
            max_to_server: self.options.queue_pairs - 1,
            max_log2_ring_size: self.options.log2(),
        })
    }

    pub(super) fn awaits(&self) -> Option<&'static str> {
        match self.stage {
            Stage::Opening => Some("INIT"),
            Stage::Adding => Some("CONNECT"),
            Stage::Running => None,
        }
    }

    pub(super) fn memory(&self) -> (usize, u64) {
        (self.regions.len(), self.regions.iter().map(|region| region.spec().len).sum())
    }

    pub(super) fn ring_size(&self) -> u16 {
        self.to_server.first().or(self.to_client.first()).map_or(0, |ring| 1 << ring.ring.log2_size)
    }

    pub(super) fn receive(&mut self, message: Message, files: Vec<OwnedFd>) -> Result<Step, End> {
        if let Message::Disconnect(_, reason) = message {
            return Err(disconnected(&reason, self.stage == Stage::Running));
        }
        match (self.stage, message) {
            (Stage::Opening, Message::Init(init)) => self.open(&init)?,
            (Stage::Adding, Message::AddRegion(index, size)) => self.add_region(index, size, files)?,
            (Stage::Adding, Message::AddRing(ring)) => self.add_ring(ring, files)?,
            (Stage::Adding, Message::Connect(_)) => return self.connect(),
            (Stage::Opening, message) => return Err(unexpected(&message, "INIT")),
            (Stage::Adding, message) => {
                return Err(unexpected(&message, "ADD_REGION, ADD_RING or CONNECT"));
            }
            (Stage::Running, message) => return Err(unexpected(&message, "DISCONNECT")),
        }
        Ok(Step::Send(Message::Ack, Attached::Nothing))
    }

    fn open(&mut self, init: &Init) -> Result<(), End> {
        if init.version != VERSION {
            let (major, minor) = (init.version >> 8, init.version & 0xff);
            return Err(rejected(format!("it speaks version {major}.{minor} of memif, and this port 2.0")));
        }
        if init.id != self.options.id {
            let (id, ours) = (init.id, self.options.id);
            return Err(rejected(format!("it wants interface {id}, and this port is {ours}")));
        }
        if init.mode != 0 {
            return Err(rejected("it does not speak Ethernet"));
        }
        if self.options.secret.is_some_and(|secret| !secret.is(init.secret)) {
            return Err(rejected("it does not know the secret"));
        }
        self.stage = Stage::Adding;
        Ok(())
    }

    fn add_region(&mut self, index: u16, size: u64, files: Vec<OwnedFd>) -> Result<(), End> {
        let failed =
            |why: &dyn std::fmt::Display| protocol_error(format!("region {index} is refused: {why}"));
        if usize::from(index) != self.regions.len() || index >= MAX_REGIONS {
            return Err(failed(&"regions are numbered from 0 to 255 in order"));
        }
        let file = only(files).ok_or_else(|| failed(&"it came without its one file"))?;
        if memory::is_served_remotely(&file).map_err(|e| failed(&e))? {
            return Err(failed(&"its file system is remote or in user space, and could delay page faults"));
        }
        let at = address(index, 0);
        let spec = RegionSpec { guest: at, user: at, len: size.min(MAX_REACH), offset: 0 };
        self.regions.push(Arc::new(Region::map(file.as_fd(), spec).map_err(|e| failed(&e))?));
        self.files.push(file);
        Ok(())
    }

    fn add_ring(&mut self, ring: AddRing, files: Vec<OwnedFd>) -> Result<(), End> {
        let rings = if ring.to_server { &mut self.to_server } else { &mut self.to_client };
        let failed =
            |why: &dyn std::fmt::Display| protocol_error(format!("ring {} is refused: {why}", ring.index));
        if usize::from(ring.index) != rings.len() {
            return Err(failed(&"rings are numbered in order, for each direction"));
        }
        if ring.index >= self.options.queue_pairs {
            return Err(rejected(format!(
                "it brings more than {} queues; raise this port's number or lower the client's",
                self.options.queue_pairs
            )));
        }
        if ring.log2_size > MAX_LOG2 {
            return Err(failed(&"it is longer than 2^14"));
        }
        if ring.private_header != 0 {
            return Err(failed(&"private headers are not supported"));
        }
        let wake = only(files).ok_or_else(|| failed(&"it came without its one event descriptor"))?;
        eventfd::check(&wake).map_err(|why| End::Fault(PortFault::BadDescriptor("interrupt", why)))?;
        rings.push(Announced { ring, wake: Arc::new(wake) });
        Ok(())
    }

    fn connect(&mut self) -> Result<Step, End> {
        if self.to_server.is_empty() && self.to_client.is_empty() {
            return Err(protocol_error("it connects without a ring"));
        }
        let rings = self.rings()?;
        self.stage = Stage::Running;
        Ok(Step::Run(rings, Some(Message::Connected(field(NAME)))))
    }

    fn rings(&self) -> Result<Rings, End> {
        let map = GuestMemory::new(self.regions.clone()).map_err(|e| protocol_error(e.to_string()))?;
        let map = Arc::new(map);
        let queues =
            |rings: &[Announced]| rings.iter().map(|ring| queue(&map, ring)).collect::<Result<_, End>>();
        Ok(Rings::Server(queues(&self.to_server)?, queues(&self.to_client)?))
    }

    /// The rings, if they run.
    pub(super) fn running(&self) -> Option<Rings> {
        self.rings().ok().filter(|_| self.stage == Stage::Running)
    }

    /// The messages that another session receives to be as this one, with their descriptors.
    pub(super) fn messages(&self) -> Result<Vec<Described>, PortFault> {
        if self.stage == Stage::Opening {
            return Ok(Vec::new());
        }
        let mut messages = vec![(Message::Init(init(&self.options)), None)];
        for (index, (region, file)) in (0..).zip(self.regions.iter().zip(&self.files)) {
            messages.push((Message::AddRegion(index, region.spec().len), Some(duplicate(file)?)));
        }
        for Announced { ring, wake } in self.to_server.iter().chain(&self.to_client) {
            messages.push((Message::AddRing(*ring), Some(duplicate(&**wake)?)));
        }
        if self.stage == Stage::Running {
            messages.push((Message::Connect(own_name()), None));
        }
        Ok(messages)
    }
}

fn queue(map: &Arc<GuestMemory>, announced: &Announced) -> Result<Queue<Borrowed>, End> {
    let AddRing { region, offset, log2_size, .. } = announced.ring;
    let place = map.by_user(address(region, offset), Ring::bytes(log2_size));
    let ring = Ring::new(map, place, log2_size).map_err(|fault| End::Fault(fault.into()))?;
    if !ring.has_cookie() {
        return Err(protocol_error(format!("there is no ring at offset {offset} of region {region}")));
    }
    Ok(Queue { ring, buffers: Borrowed::new(map), wake: announced.wake.clone() })
}

/// The descriptor of a message with exactly one.
fn only(mut files: Vec<OwnedFd>) -> Option<OwnedFd> {
    if files.len() == 1 { files.pop() } else { None }
}
