//! Decides whether a process may have a port: by the `[[grant]]` sections of the file. The first section that admits
//! the user, and has the bridge that is asked for, decides about the limits.

use super::error::ApiError;
use crate::grant::GrantRequest;
use crate::settings::grants::GrantSettings;
use crate::settings::kinds::PortKind;
use crate::settings::kinds::granted::Holder;
use crate::settings::reader::notes::shortened;
use crate::settings::topology::{PortSettings, Topology};
use console::Diagnostic;

/// Position of the section that grants the request.
pub(super) fn section(
    topology: &Topology,
    request: &GrantRequest,
    holder: &Holder,
) -> Result<usize, ApiError> {
    let place = place(request);
    let grants = || topology.grants.iter().enumerate().filter(|(_, grant)| grant.admits(holder));
    if grants().next().is_none() {
        let reason = format!("the switch grants no ports to user {}, group {}", holder.uid, holder.gid);
        let remedy = "ask the operator of the switch to add the user to a [[grant]] section";
        return Err(ApiError::Forbidden(Diagnostic::bad(place, reason, remedy)));
    }
    let wanted = request.bridge.as_deref();
    let found = grants().find(|(_, grant)| wanted.is_none_or(|bridge| bridge == grant.bridge));
    let Some((index, grant)) = found else {
        let (bridge, remedy) = (wanted.unwrap_or_default(), "leave `switch_bridge` out, or name another one");
        if topology.bridges.iter().all(|known| known.name != bridge) {
            let reason = format!("the switch has no bridge \"{}\"", bridge.escape_default());
            return Err(ApiError::not_found(place, reason, remedy));
        }
        let reason = format!("the switch grants user {} no ports of bridge \"{bridge}\"", holder.uid);
        return Err(ApiError::Forbidden(Diagnostic::bad(place, reason, remedy)));
    };
    check_limits(grant, request)?;
    if is_used_up(topology, index, grant) {
        let reason = format!("all {} ports of this grant are in use", grant.ports);
        return Err(ApiError::Conflict(Diagnostic::bad(place, reason, "end one of the other applications")));
    }
    Ok(index)
}

fn place(request: &GrantRequest) -> String {
    format!("port \"{}\"", shortened(&request.name).escape_default())
}

/// Checks what the port needs against the section.
fn check_limits(grant: &GrantSettings, request: &GrantRequest) -> Result<(), ApiError> {
    let (reason, remedy) = if request.queue_pairs > grant.queue_pairs {
        let (asked, most) = (request.queue_pairs, grant.queue_pairs);
        (format!("{asked} queue pairs are asked for, and at most {most} granted"), "lower `queue_pairs`")
    } else if request.memory > grant.bytes() {
        let (asked, most) = (request.memory.div_ceil(1 << 20), grant.memory);
        let reason = format!("the rings and buffers need {asked} MiB, and at most {most} MiB are granted");
        (reason, "lower `queue_pairs` or `mtu`")
    } else {
        return Ok(());
    };
    Err(ApiError::Forbidden(Diagnostic::bad(place(request), reason, remedy)))
}

fn is_used_up(topology: &Topology, index: usize, grant: &GrantSettings) -> bool {
    let is_of = |port: &&PortSettings| matches!(&port.kind, PortKind::Granted(own) if own.section == index);
    topology.ports.iter().filter(is_of).count() >= grant.ports
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;
    use crate::settings::config;
    use crate::settings::kinds::granted::Granted;

    const TEXT: &str = "[switch]\ngrants = \"/tmp/lr-none.grants\"\n\
        [[bridge]]\nname = \"lan\"\n[[bridge]]\nname = \"dmz\"\n[[bridge]]\nname = \"core\"\n\
        [[grant]]\nusers = [\"1001\", \"1002\"]\nbridge = \"lan\"\nports = 2\n\
        [[grant]]\nusers = [\"1001\"]\ngroups = [\"50\"]\nbridge = \"dmz\"\nqueue_pairs = 4\nmemory = 8\n";

    fn topology() -> Topology {
        config::parse(TEXT, &Host::of(&[0], &[0]), None).unwrap()
    }

    fn request(bridge: Option<&str>) -> GrantRequest {
        GrantRequest {
            name: "web".into(),
            bridge: bridge.map(str::to_owned),
            queue_pairs: 1,
            memory: 5 << 20,
        }
    }

    fn user(uid: u32, gid: u32) -> Holder {
        Holder { pid: 7, uid, gid }
    }

    #[track_caller]
    fn refused(request: &GrantRequest, holder: Holder, status: u16, reason: &str) {
        let (found, error) = section(&topology(), request, &holder).unwrap_err().status();
        assert_eq!((found, error.reason.as_str()), (status, reason));
        assert!(!error.remedy.is_empty());
    }

    #[test]
    fn first_section_of_the_user_and_the_bridge_decides() {
        let of = |holder, bridge| section(&topology(), &request(bridge), &holder).unwrap();
        assert_eq!((of(user(1001, 1), None), of(user(1001, 1), Some("dmz"))), (0, 1));
        assert_eq!((of(user(1002, 1), Some("lan")), of(user(9, 50), None)), (0, 1));
    }

    #[test]
    fn users_bridges_and_limits_outside_the_policy_are_refused() {
        refused(&request(None), user(9, 9), 403, "the switch grants no ports to user 9, group 9");
        // A user without any grant does not learn which bridges exist.
        refused(&request(Some("no")), user(9, 9), 403, "the switch grants no ports to user 9, group 9");
        refused(&request(Some("no")), user(1001, 1), 404, "the switch has no bridge \"no\"");
        let reason = "the switch grants user 1002 no ports of bridge \"dmz\"";
        refused(&request(Some("dmz")), user(1002, 1), 403, reason);
        let pairs = GrantRequest { queue_pairs: 2, ..request(None) };
        refused(&pairs, user(1002, 1), 403, "2 queue pairs are asked for, and at most 1 granted");
        let memory = GrantRequest { memory: (8 << 20) + 1, ..request(Some("dmz")) };
        let reason = "the rings and buffers need 9 MiB, and at most 8 MiB are granted";
        refused(&memory, user(1001, 1), 403, reason);
    }

    #[test]
    fn ports_of_other_sections_do_not_count() {
        let (mut topology, holder) = (topology(), user(1001, 1));
        for (number, of) in [(0, 1), (1, 0), (2, 0)] {
            assert_eq!(section(&topology, &request(None), &holder).unwrap(), 0, "before port {number}");
            let granted = Granted { section: of, ..Granted::default() };
            let port = PortSettings::granted(&topology.grants[of], &format!("p{number}"), 1, granted);
            topology.ports.push(port);
        }
        let (status, error) = section(&topology, &request(None), &holder).unwrap_err().status();
        assert_eq!((status, error.reason.as_str()), (409, "all 2 ports of this grant are in use"));
        assert_eq!(section(&topology, &request(Some("dmz")), &holder).unwrap(), 1);
    }
}
