//! Hardware events and their codes.
//!
//! Skylake-X events are from Intel's event list for that processor (perfmon, `skylakex`, core events), under their
//! names there. Codes are `event | umask << 8 | cmask << 24`; off-core responses use an additional selector register,
//! of which a core has two.

use perf_event::Builder;
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware, Raw, Software};

/// A hardware event.
#[derive(Clone, Debug)]
pub struct Event {
    /// Name in the manual
    pub name: &'static str,
    code: Code,
}

#[derive(Clone, Debug)]
enum Code {
    Hardware(Hardware),
    Cache(Cache),
    Raw(Raw),
    #[cfg_attr(not(test), expect(dead_code, reason = "only tests run without hardware counters"))]
    Software(Software),
}

impl Event {
    /// Returns a counter builder for the calling thread in user mode.
    pub(super) fn builder(&self) -> Builder<'static> {
        match &self.code {
            Code::Hardware(event) => Builder::new(*event),
            Code::Cache(event) => Builder::new(event.clone()),
            Code::Raw(event) => Builder::new(*event),
            Code::Software(event) => Builder::new(*event),
        }
    }
}

const fn hardware(name: &'static str, event: Hardware) -> Event {
    Event { name, code: Code::Hardware(event) }
}

const fn raw(name: &'static str, event: u64, umask: u64, cmask: u64) -> Event {
    Event { name, code: Code::Raw(Raw::new(event | umask << 8 | cmask << 24)) }
}

const fn response(name: &'static str, select: u64) -> Event {
    Event { name, code: Code::Raw(Raw::new(0x01b7).config1(select)) }
}

const fn cache(name: &'static str, which: CacheId, operation: CacheOp, result: CacheResult) -> Event {
    Event { name, code: Code::Cache(Cache { which, operation, result }) }
}

/// The study's events on Skylake-X. The first two have dedicated counters; each four of the others fit together.
pub fn skylake_x() -> Vec<Event> {
    vec![
        hardware("CPU_CLK_UNHALTED.THREAD", Hardware::CPU_CYCLES),
        hardware("INST_RETIRED.ANY", Hardware::INSTRUCTIONS),
        raw("MEM_LOAD_RETIRED.L1_MISS", 0xd1, 0x08, 0),
        raw("MEM_LOAD_RETIRED.L2_MISS", 0xd1, 0x10, 0),
        raw("MEM_LOAD_RETIRED.L3_MISS", 0xd1, 0x20, 0),
        raw("MEM_LOAD_RETIRED.FB_HIT", 0xd1, 0x40, 0),
        raw("MEM_LOAD_L3_HIT_RETIRED.XSNP_HITM", 0xd2, 0x04, 0),
        raw("MEM_LOAD_L3_HIT_RETIRED.XSNP_HIT", 0xd2, 0x02, 0),
        raw("L1D.REPLACEMENT", 0x51, 0x01, 0),
        raw("L1D_PEND_MISS.FB_FULL", 0x48, 0x02, 0),
        cache("LLC-loads", CacheId::LL, CacheOp::READ, CacheResult::ACCESS),
        cache("LLC-stores", CacheId::LL, CacheOp::WRITE, CacheResult::ACCESS),
        raw("L2_LINES_OUT.SILENT", 0xf2, 0x01, 0),
        raw("L2_LINES_OUT.NON_SILENT", 0xf2, 0x02, 0),
        raw("L2_LINES_OUT.USELESS_HWPF", 0xf2, 0x04, 0),
        raw("L2_RQSTS.RFO_MISS", 0x24, 0x22, 0),
        raw("OFFCORE_REQUESTS.DEMAND_RFO", 0xb0, 0x04, 0),
        raw("OFFCORE_REQUESTS_OUTSTANDING.DEMAND_RFO", 0x60, 0x04, 0),
        raw("OFFCORE_REQUESTS_OUTSTANDING.CYCLES_WITH_DEMAND_RFO", 0x60, 0x04, 1),
        raw("OFFCORE_REQUESTS.DEMAND_DATA_RD", 0xb0, 0x01, 0),
        response("OFFCORE_RESPONSE.ALL_DATA_RD.ANY_RESPONSE", 0x10491),
        response("OFFCORE_RESPONSE.ALL_RFO.ANY_RESPONSE", 0x10122),
        raw("LONGEST_LAT_CACHE.REFERENCE", 0x2e, 0x4f, 0),
        raw("LONGEST_LAT_CACHE.MISS", 0x2e, 0x41, 0),
        response("OFFCORE_RESPONSE.ALL_DATA_RD.L3_HIT.HITM_OTHER_CORE", 0x10_003c_0491),
        response("OFFCORE_RESPONSE.DEMAND_RFO.L3_HIT.HITM_OTHER_CORE", 0x10_003c_0002),
    ]
}

/// Events that the kernel supports on most processors.
pub fn generic() -> Vec<Event> {
    use CacheOp as Op;
    use CacheResult as Result;
    vec![
        hardware("cycles", Hardware::CPU_CYCLES),
        hardware("instructions", Hardware::INSTRUCTIONS),
        cache("L1-dcache-loads", CacheId::L1D, Op::READ, Result::ACCESS),
        cache("L1-dcache-load-misses", CacheId::L1D, Op::READ, Result::MISS),
        cache("L1-dcache-stores", CacheId::L1D, Op::WRITE, Result::ACCESS),
        cache("L1-dcache-prefetches", CacheId::L1D, Op::PREFETCH, Result::ACCESS),
        cache("LLC-loads", CacheId::LL, Op::READ, Result::ACCESS),
        cache("LLC-load-misses", CacheId::LL, Op::READ, Result::MISS),
        cache("LLC-stores", CacheId::LL, Op::WRITE, Result::ACCESS),
        cache("LLC-store-misses", CacheId::LL, Op::WRITE, Result::MISS),
        hardware("cache-references", Hardware::CACHE_REFERENCES),
        hardware("cache-misses", Hardware::CACHE_MISSES),
        cache("dTLB-load-misses", CacheId::DTLB, Op::READ, Result::MISS),
        hardware("branches", Hardware::BRANCH_INSTRUCTIONS),
        hardware("branch-misses", Hardware::BRANCH_MISSES),
    ]
}

/// Software events, which need no hardware.
#[cfg(test)]
pub(super) fn software() -> Vec<Event> {
    vec![
        Event { name: "task-clock", code: Code::Software(Software::TASK_CLOCK) },
        Event { name: "page-faults", code: Code::Software(Software::PAGE_FAULTS) },
    ]
}
