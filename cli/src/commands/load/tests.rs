use super::*;
use clap::Parser;
use report::Report;
use std::sync::Arc;

#[derive(Debug, Parser)]
struct Line {
    #[command(subcommand)]
    command: LoadCommand,
}

fn client(more: &str) -> Result<ClientArgs, clap::Error> {
    let words = "load echo --port kind=tap,interface=x --address 10.9.0.2/24 --address fd09::2/64";
    let line = Line::try_parse_from(words.split(' ').chain(more.split_whitespace()))?;
    let LoadCommand::Echo(args) = line.command else { panic!("another command") };
    Ok(args.client)
}

fn results() -> Results {
    let stack = stack::Stack::new(stack::Config::new([1; 16]), stack::Time(0));
    let options = options(&client("--to 10.9.0.1:7 --rate 100").unwrap(), &[]);
    let load = Load::new(EchoLoad::new(1, true), options, Arc::default(), &stack, stack::Time(0)).unwrap();
    load.results(stack::Time(0))
}

#[test]
fn sources_follow_the_address_of_the_servers_network() {
    let texts = |more: &str| sources(&client(more).unwrap()).map(|all| texts(&all));
    assert_eq!(texts("--to 10.9.0.1:7").unwrap(), "10.9.0.2/24");
    assert_eq!(texts("--to 10.9.0.1:7 --sources 3").unwrap(), "10.9.0.2/24, 10.9.0.3/24, 10.9.0.4/24");
    assert_eq!(texts("--to [fd09::1]:7 --sources 2").unwrap(), "fd09::2/64, fd09::3/64");
    assert_eq!(texts("--to 192.0.2.1:7").unwrap(), "10.9.0.2/24");
    let refused = texts("--to 10.9.0.1:7 -c 1000000").unwrap_err();
    assert_eq!((refused.code, refused.remedy.as_str()), (console::BAD_INPUT, "write --sources 16"));
    assert!(texts("--to 10.9.0.4:7 --sources 4").is_err());
    assert!(texts("--to 10.9.0.1:7 --sources 255").is_err());
}

#[test]
fn workers_divide_connections_and_rates() {
    let all = options(&client("--to 10.9.0.1:7 -c 7 --rate 300 --connect-rate 30").unwrap(), &[]);
    let shares: Vec<_> = (0..3).map(|worker| share(&all, worker, 3)).collect();
    assert_eq!(shares.iter().map(|share| share.connections).collect::<Vec<_>>(), [3, 2, 2]);
    for (seed, share) in (1..).zip(&shares) {
        let Mode::Open { rate, spacing } = share.mode else { panic!("a closed loop") };
        assert!((rate - 100.0).abs() < 1e-9 && (share.connect_rate.unwrap() - 10.0).abs() < 1e-9);
        assert_eq!((spacing, share.handshakes), (Spacing::Poisson(seed), 85));
    }
    assert_eq!(share(&all, 0, 1).connections, 7);
    let refused = |more: &str| validate(&client(more).unwrap()).unwrap_err();
    assert_eq!(refused("--to 10.9.0.1:7 --workers 2").remedy, "write --connections 2 or more");
    assert_eq!(refused("--to 10.9.0.1:7 -c 2 --workers 2 --steering arrival").remedy, "leave --steering out");
    assert!(validate(&client("--to 10.9.0.1:7 --workers 1 --steering arrival").unwrap()).is_ok());
    let texts = |more: &str| sources(&client(more).unwrap()).map(|all| texts(&all));
    assert_eq!(texts("--to 10.9.0.1:7 -c 60000 --workers 2").unwrap_err().remedy, "write --sources 2");
    assert!(texts("--to 10.9.0.1:7 -c 60000").is_ok());
}

#[test]
fn invalid_arguments_are_refused() {
    for more in [
        "",
        "--to 10.9.0.1",
        "--to 10.9.0.1:7 --rate 0",
        "--to 10.9.0.1:7 --rate nan",
        "--to 10.9.0.1:7 --rate 1 --think 1s",
        "--to 10.9.0.1:7 --spacing even",
        "--to 10.9.0.1:7 --connections 0",
    ] {
        assert!(client(more).is_err(), "{more}");
    }
    let words =
        "load kv --port kind=tap,interface=x --address 10.9.0.2/24 --to 10.9.0.1:1 --distribution zipf:0";
    assert!(Line::try_parse_from(words.split(' ')).is_err());
}

#[test]
fn failures_make_the_run_a_failure() {
    let mut results = results();
    assert!(ended(&results, None).unwrap().reason.contains("partial"));
    results.is_complete = true;
    assert!(ended(&results, None).is_none());
    results.requests.misses = 1;
    assert!(ended(&results, None).is_none());
    results.requests.error_replies = 2;
    assert_eq!(ended(&results, None).unwrap().code, console::FAILED);
    let error = LoadError::NoRoute;
    assert_eq!(ended(&results, Some(&error)).unwrap().reason, "no route to the server");
}

#[test]
fn page_has_figures_of_measured_data_and_no_external_references() {
    let mut results = results();
    results.histogram = vec![(1_000, 90), (5_000, 9), (100_000, 1)];
    results.latency_ns = measure::Summary { count: 100, max: 100_000, p50: 1_000, ..Default::default() };
    results.series.interval = 0.5;
    results.series.points = vec![serve::load::Point { replies: 10, connects: 1, failures: 0 }; 4];
    let host = host::Host::new(host::Options::new().unwrap()).unwrap().close();
    let report = Report::new(&client("--to 10.9.0.1:7").unwrap(), "<b>".to_owned(), results, None, &host);
    let page = page::page(&report);
    for id in ["latency", "replies", "connects"] {
        assert!(page.contains(&format!("id=\"figure-{id}\"")), "no {id}");
    }
    assert!(
        !page.contains("figure-failures") && !page.contains("http://") && !page.contains("NaN"),
        "{page}"
    );
    assert!(!page.contains("<b>") && page.contains("table-counts"));
    assert!(report.text().contains("100"), "{}", report.text());
}
