//! Results of several workers as one: counts and rates are sums, latencies are those of the sum of the histograms.

use super::results::{
    ConnectionCounts, Failures, Histograms, Point, RequestCounts, Results, Round, Series, pairs,
};

impl Results {
    /// Adds the results of another worker of the same run.
    pub fn join(&mut self, other: &Self) {
        let bytes = self.client_bytes() + other.client_bytes();
        self.is_complete &= other.is_complete;
        self.seconds = self.seconds.max(other.seconds);
        let opened = self.opened_after.zip(other.opened_after);
        self.opened_after = opened.map(|(own, theirs)| own.max(theirs));
        self.requests.join(&other.requests);
        self.connections.join(&other.connections);
        for (n, round) in other.rounds.iter().enumerate() {
            match self.rounds.get_mut(n) {
                Some(own) => own.join(round),
                None => self.rounds.push(round.clone()),
            }
        }
        self.histograms.join(&other.histograms);
        self.summarize();
        self.series.join(&other.series);
        self.client_bytes_per_connection = bytes / self.connections.most.max(1) as f64;
        self.wrong_reply = self.wrong_reply.take().or_else(|| other.wrong_reply.clone());
    }

    fn client_bytes(&self) -> f64 {
        self.client_bytes_per_connection * self.connections.most.max(1) as f64
    }
}

impl Failures {
    fn join(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(own, theirs)| *own += theirs);
    }
}

impl RequestCounts {
    fn join(&mut self, other: &Self) {
        self.due += other.due;
        self.sent += other.sent;
        self.answered += other.answered;
        self.failed.join(&other.failed);
        self.outstanding += other.outstanding;
        self.unsent += other.unsent;
        self.error_replies += other.error_replies;
        self.misses += other.misses;
    }
}

impl ConnectionCounts {
    fn join(&mut self, other: &Self) {
        self.attempted += other.attempted;
        self.established += other.established;
        self.connecting += other.connecting;
        self.failed.join(&other.failed);
        self.open += other.open;
        self.ended += other.ended;
        self.lost.join(&other.lost);
        self.most += other.most;
    }
}

impl Round {
    fn join(&mut self, other: &Self) {
        self.replies_per_second += other.replies_per_second;
        self.bytes_per_second += other.bytes_per_second;
        self.connects_per_second += other.connects_per_second;
    }
}

impl Histograms {
    fn join(&mut self, other: &Self) {
        let rounds = self.rounds.len().max(other.rounds.len());
        self.rounds.resize_with(rounds, Default::default);
        self.rounds.iter_mut().zip(&other.rounds).for_each(|(own, theirs)| own.merge(theirs));
        self.connect.merge(&other.connect);
        if let Some(delay) = &other.delay {
            self.delay.get_or_insert_default().merge(delay);
        }
    }
}

impl Series {
    /// Adds the events of another worker, at the longer interval of both.
    fn join(&mut self, other: &Self) {
        let mut other = other.clone();
        while self.interval < other.interval {
            self.lengthen();
        }
        while other.interval < self.interval {
            other.lengthen();
        }
        let len = self.points.len().max(other.points.len());
        self.points.resize(len, Point::default());
        self.points.iter_mut().zip(&other.points).for_each(|(own, theirs)| own.add(*theirs));
        let later = |own: Option<f64>, theirs: Option<f64>| own.zip(theirs).map(|(a, b)| a.max(b));
        (self.begin, self.end) = (later(self.begin, other.begin), later(self.end, other.end));
    }

    fn lengthen(&mut self) {
        self.interval *= 2.0;
        self.points = pairs(&self.points);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::Histogram;

    fn histogram(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        for value in values {
            histogram.record(*value);
        }
        histogram
    }

    fn results(latencies: [&[u64]; 2], connections: u64) -> Results {
        let rounds =
            latencies.map(|values| Round { replies_per_second: values.len() as f64, ..Round::default() });
        let requests = RequestCounts { answered: 3, ..RequestCounts::default() };
        let connections = ConnectionCounts { most: connections, ..ConnectionCounts::default() };
        let mut results = Results {
            is_complete: true,
            opened_after: Some(connections.most as f64),
            requests,
            connections,
            rounds: rounds.to_vec(),
            histograms: Histograms { rounds: latencies.map(histogram).to_vec(), ..Histograms::default() },
            client_bytes_per_connection: 10.0,
            ..Results::default()
        };
        results.summarize();
        results
    }

    #[test]
    fn rates_are_sums_and_quantiles_those_of_all_values() {
        let (mut one, other) = (results([&[1, 2], &[3]], 1), results([&[100, 101, 102], &[]], 4));
        one.join(&other);
        assert_eq!(one.rounds.iter().map(|round| round.replies_per_second).collect::<Vec<_>>(), [5.0, 1.0]);
        assert_eq!((one.rounds[0].latency_ns.p50, one.rounds[0].latency_ns.max), (100, 102));
        assert_eq!((one.latency_ns.count, one.latency_ns.min, one.requests.answered), (6, 1, 6));
        assert_eq!(one.histogram.iter().map(|(_, count)| count).sum::<u64>(), 6);
        assert_eq!((one.opened_after, one.connections.most), (Some(4.0), 5));
        assert!(one.is_complete && (one.client_bytes_per_connection - 10.0).abs() < 1e-9);
        let partial = Results { rounds: Vec::new(), opened_after: None, ..Results::default() };
        one.join(&partial);
        assert!(!one.is_complete && one.opened_after.is_none() && one.rounds.len() == 2);
    }

    #[test]
    fn series_of_different_intervals_keep_their_sums() {
        let series = |interval, count: u64| Series {
            interval,
            points: (0..count).map(|replies| Point { replies, ..Point::default() }).collect(),
            begin: Some(interval),
            end: None,
        };
        for (own, theirs) in [(series(0.01, 9), series(0.04, 3)), (series(0.04, 3), series(0.01, 9))] {
            let mut joined = own;
            joined.join(&theirs);
            assert_eq!(joined.points.iter().map(|point| point.replies).collect::<Vec<_>>(), [6, 23, 10]);
            assert!((joined.interval - 0.04).abs() < 1e-9);
            assert_eq!((joined.begin, joined.end), (Some(0.04), None));
        }
    }
}
