//! Scripts in the language of packetdrill (<https://github.com/google/packetdrill>) over one stack.
//!
//! Each file of `tests/scripts` is a test. Outbound packets are compared with all their fields, as packetdrill does it,
//! except that options may have any order and padding, and that a packet may have any window or options where the
//! script writes none or `<...>`. Settings follow the names of Linux; `*` stands for any acknowledgement, timestamp or
//! cookie.

mod calls;
mod flow;
pub(crate) mod host;
mod parse;
mod run;
mod syntax;
mod token;

/// Folder of the scripts.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scripts");

fn run_file(name: &str) {
    let path = format!("{FOLDER}/{name}.pkt");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    if let Err((line, error)) = run::run(&text) {
        panic!("{name}.pkt:{line}: {error}");
    }
}

/// Declares a test for each script.
macro_rules! scripts {
    ($($name:ident)+) => {
        $(#[test]
        fn $name() {
            run_file(stringify!($name));
        })+

        #[test]
        fn every_script_is_a_test() {
            let files = std::fs::read_dir(FOLDER).unwrap().map(|file| file.unwrap().file_name());
            let mut files: Vec<_> = files.map(|name| name.into_string().unwrap()).collect();
            files.sort();
            let mut names = vec![$(concat!(stringify!($name), ".pkt")),+];
            names.sort_unstable();
            assert_eq!(files, names);
        }
    };
}

scripts! {
    ack_of_unsent_data
    bbr_pacing
    blind_data
    blind_reset
    blind_syn
    challenge_limit
    close_active
    close_passive
    close_simultaneous
    close_with_data
    close_with_fin_ack
    cork
    cubic_fast_convergence
    cubic_growth
    cubic_reno_friendly
    cubic_timeout
    data_out_of_order
    data_transfer
    delayed_ack
    delayed_ack_coalesced
    ecn_active
    ecn_receiver
    ecn_refused
    ecn_sender
    ecn_sender_small
    ecn_simultaneous
    fast_open_client
    fast_open_invalid_cookie
    fast_open_segment
    fast_open_server
    fast_open_timeout
    fast_retransmit
    fast_retransmit_newreno
    fin_out_of_order
    frto_loss
    frto_spurious
    half_close
    half_close_by_peer
    handshake_active
    handshake_active_v6
    handshake_passive
    handshake_passive_retransmission
    handshake_refused
    handshake_retransmission
    handshake_wrong_ack
    initial_window
    keep_alive
    keep_alive_after_data
    keep_alive_reply
    limited_transmit
    limited_transmit_without_sack
    nagle
    nagle_off
    open_simultaneous
    open_simultaneous_syn_ack
    path_mtu
    path_mtu_forged
    path_mtu_probe
    path_mtu_probe_lost
    path_mtu_v6
    paws
    proportional_rate_reduction
    rack_loss
    rack_reordering
    reset_by_abort
    reset_closed_port
    reset_established
    reset_listen
    retransmission_timeout
    retransmission_timeout_window
    sack_duplicate
    sack_duplicate_undo
    sack_off
    sack_receiver
    segment_outside_window
    silly_window_override
    silly_window_receiver
    silly_window_sender
    syn_cookies
    syn_cookies_with_syn
    tail_loss_probe
    tail_loss_probe_new_data
    time_wait_reset
    time_wait_reuse
    time_wait_reuse_by_sequence
    timestamps
    timestamps_active
    timestamps_missing
    unreachable_established
    unreachable_port
    urgent
    urgent_send
    user_timeout
    window_closed
    window_receive
    window_scale
    window_scale_of_syn
    window_update
}
