//! The subjects of each row, and the pairs of subjects whose ratios are reported.

use super::super::comparison::{Goal, Pair};
use super::reading::{GBITS, P50, REQUESTS};
use super::{Arguments, Row, word};

/// Connections that iip supports.
const MOST_OF_IIP: u32 = 500;
const FEW: [u32; 4] = [1, 16, 64, 256];
const MANY: [u32; 4] = [10, 1_000, 100_000, 1_000_000];
/// Client and server of rows echo and bulk over a vhost-user socket.
const ENDS: [(&str, &str); 4] =
    [("linerate", "linerate"), ("iip", "linerate"), ("linerate", "iip"), ("iip", "iip")];
/// Row bulk: with and without segmentation offload.
const TSO: &str = "tso";
const NO_TSO: &str = "no-tso";

/// A subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) row: Row,
    pub(super) client: &'static str,
    pub(super) server: &'static str,
    /// Rows echo, short and connections: the ring, `-` for the kernel. Row bulk: offloads, behind the ring and a comma
    /// where there is one. Others: payload.
    pub(super) setting: String,
    pub(super) connections: u32,
}

impl Subject {
    fn new(
        row: Row,
        (client, server): (&'static str, &'static str),
        setting: &str,
        connections: u32,
    ) -> Self {
        Self { row, client, server, setting: setting.to_owned(), connections }
    }

    pub(super) fn has_iip(&self) -> bool {
        self.client == "iip" || self.server == "iip"
    }

    pub(super) fn labels(&self) -> Vec<String> {
        let (client, server) = (format!("{} client", self.client), format!("{} server", self.server));
        vec![word(&self.row), client, server, self.setting.clone(), self.connections.to_string()]
    }
}

/// The subjects of these rows. Those with iip are left out without its program, or beyond its connections.
pub(super) fn subjects(arguments: &Arguments, rows: &[Row], has_iip: bool) -> Vec<Subject> {
    let mut subjects: Vec<_> = rows.iter().flat_map(|row| of_row(arguments, *row)).collect();
    subjects.retain(|subject| !subject.has_iip() || (has_iip && subject.connections <= MOST_OF_IIP));
    subjects
}

fn of_row(arguments: &Arguments, row: Row) -> Vec<Subject> {
    let rings: Vec<_> = arguments.rings.iter().map(word).collect();
    let rings = if rings.is_empty() { vec!["split".to_owned(), "packed-inorder".to_owned()] } else { rings };
    let default = if row == Row::Connections { MANY } else { FEW };
    let connections = if arguments.connections.is_empty() { &default[..] } else { &arguments.connections };
    let each = |ends: &[(&'static str, &'static str)], setting: &str| -> Vec<Subject> {
        let of = |n: &u32| ends.iter().map(|ends| Subject::new(row, *ends, setting, *n)).collect::<Vec<_>>();
        connections.iter().flat_map(of).collect()
    };
    let over_rings = |ends: &[(&'static str, &'static str)]| {
        let ours = rings.iter().flat_map(|ring| each(ends, ring));
        ours.chain(each(&[("kernel", "kernel")], "-")).collect()
    };
    match row {
        Row::Echo => over_rings(&ENDS),
        Row::Short => over_rings(&ENDS[..1]),
        Row::Bulk => bulk(&rings),
        Row::Http => each(&[("wrk", "linerate"), ("wrk", "nginx")], "1KiB"),
        Row::Kv => each(&[("memcaslap", "linerate"), ("memcaslap", "memcached")], "95%-get"),
        Row::Connections => rings.iter().flat_map(|ring| each(&ENDS[..1], ring)).collect(),
    }
}

/// One stream from client to server: all ends over a socket, and the kernel as the client of our server and of its own.
/// iip has no offloads over virtio.
fn bulk(rings: &[String]) -> Vec<Subject> {
    let kernels = [("kernel", "linerate"), ("kernel", "kernel")];
    let subject = |ends, setting: &str| Subject::new(Row::Bulk, ends, setting, 1);
    let with = |offloads| {
        let is_possible = move |ends: &(&str, &str)| offloads == NO_TSO || *ends == ENDS[0];
        let over = move |ring| {
            let setting = format!("{ring},{offloads}");
            ENDS.into_iter().filter(is_possible).map(move |ends| subject(ends, &setting))
        };
        rings.iter().flat_map(over).chain(kernels.map(|ends| subject(ends, offloads)))
    };
    [TSO, NO_TSO].into_iter().flat_map(with).collect()
}

/// All pairs whose two subjects are measured.
pub(super) fn pairs(subjects: &[Subject]) -> Vec<Pair> {
    let of = |(ours, subject): (usize, &Subject)| {
        let pair = |(theirs, column, goal): (Subject, usize, Option<Goal>)| {
            let theirs = subjects.iter().position(|other| *other == theirs)?;
            Some(Pair { ours, theirs, column, goal })
        };
        peers(subject, subjects).into_iter().filter_map(pair).collect::<Vec<_>>()
    };
    subjects.iter().enumerate().flat_map(of).collect()
}

/// References of a subject, by column and with the goal of the ratio.
fn peers(subject: &Subject, subjects: &[Subject]) -> Vec<(Subject, usize, Option<Goal>)> {
    let with = |ends, setting: &str| Subject::new(subject.row, ends, setting, subject.connections);
    let iip = with(("iip", "iip"), &subject.setting);
    let kernel = |goal| (with(("kernel", "kernel"), "-"), REQUESTS, goal);
    match (subject.row, subject.client, subject.server) {
        (Row::Echo, "linerate", "linerate") if subject.connections == 1 => {
            let latency = (iip.clone(), P50, Some(Goal::AtMost(0.9)));
            vec![latency, (iip, REQUESTS, None), kernel(Some(Goal::AtLeast(10.0)))]
        }
        (Row::Echo, "linerate", "linerate") => {
            vec![(iip, REQUESTS, Some(Goal::AtLeast(1.5))), kernel(Some(Goal::AtLeast(10.0)))]
        }
        (Row::Echo, "linerate", "iip") | (Row::Echo, "iip", "linerate") => {
            vec![(iip, REQUESTS, Some(Goal::AtLeast(1.1)))]
        }
        (Row::Short, "linerate", _) => vec![kernel(Some(Goal::AtLeast(10.0)))],
        (Row::Bulk, "kernel", "linerate") => {
            vec![(with(("kernel", "kernel"), &subject.setting), GBITS, Some(Goal::AtLeast(1.2)))]
        }
        (Row::Bulk, "linerate", "linerate") => match subject.setting.strip_suffix(&format!(",{TSO}")) {
            Some(ring) => vec![(with(("linerate", "linerate"), &format!("{ring},{NO_TSO}")), GBITS, None)],
            None => vec![(iip, GBITS, Some(Goal::AtLeast(1.2)))],
        },
        (Row::Bulk, "linerate", _) | (Row::Bulk, _, "linerate") => vec![(iip, GBITS, None)],
        (Row::Http, _, "linerate") => {
            let nginx = with(("wrk", "nginx"), &subject.setting);
            vec![(nginx.clone(), REQUESTS, Some(Goal::AtLeast(3.0))), (nginx, P50, None)]
        }
        (Row::Kv, _, "linerate") => {
            let memcached = with(("memcaslap", "memcached"), &subject.setting);
            vec![(memcached, REQUESTS, Some(Goal::AtLeast(3.0)))]
        }
        (Row::Connections, ..) => {
            let alike =
                subjects.iter().filter(|other| other.row == subject.row && other.setting == subject.setting);
            let fewest = alike.min_by_key(|other| other.connections).filter(|other| *other != subject);
            // The cost of a request may double.
            fewest.map(|fewest| (fewest.clone(), REQUESTS, Some(Goal::AtLeast(0.5)))).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Options, Ring};
    use super::super::comparison;
    use super::*;

    fn names(row: Row, has_iip: bool) -> (usize, Vec<String>) {
        let (options, rings) = (Options::of_test(1), vec![Ring::Split]);
        let arguments =
            Arguments { options, rows: Vec::new(), rings, connections: vec![1, 1_000], iip: None };
        let subjects = subjects(&arguments, &[row], has_iip);
        let comparison = comparison(&subjects);
        let names = comparison.pairs.iter().map(|pair| comparison.pair_name(pair)).collect();
        (subjects.len(), names)
    }

    #[test]
    fn each_end_of_ours_is_compared_at_the_same_ring_and_connections() {
        let (count, echo) = names(Row::Echo, true);
        assert_eq!((count, echo.len()), (4 + 1 + 1 + 1, 3 + 2 + 1));
        assert_eq!(echo[0], "echo linerate client linerate server split 1 over iip client iip server");
        assert_eq!(echo[3], "echo iip client linerate server split 1 over iip server");
        assert_eq!(names(Row::Short, true).1.len(), 2);
    }

    #[test]
    fn without_iip_the_kernel_remains() {
        let (count, echo) = names(Row::Echo, false);
        assert_eq!((count, echo.len()), (4, 2));
        let (count, bulk) = names(Row::Bulk, false);
        assert_eq!((count, bulk.len()), (6, 3));
        assert_eq!(bulk[0], "bulk linerate client linerate server split,tso 1 over split,no-tso");
        assert_eq!(bulk[2], "bulk kernel client linerate server no-tso 1 over kernel server");
        assert_eq!(names(Row::Bulk, true).1.len(), 2 + 3 + 1);
    }

    #[test]
    fn servers_are_compared_with_theirs_and_many_connections_with_the_fewest() {
        assert_eq!(names(Row::Http, true).1.len(), 4);
        assert_eq!(
            names(Row::Kv, true).1[0],
            "kv memcaslap client linerate server 95%-get 1 over memcached server"
        );
        let many = "connections linerate client linerate server split 1000 over 1";
        assert_eq!(names(Row::Connections, true).1, [many]);
    }
}
