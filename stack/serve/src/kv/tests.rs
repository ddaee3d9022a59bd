//! Conversations with a store of one worker.

use super::fuzz::{Bench, START};

mod model;
mod sharded;

/// Memory in which nothing is evicted.
const LARGE: usize = 8 << 20;

/// The replies to a conversation.
fn talk(requests: &str) -> String {
    let mut bench = Bench::new(LARGE);
    bench.feed(requests.as_bytes());
    String::from_utf8(bench.replies).expect("replies of text")
}

/// Checks requests against replies; both without the CR of their lines.
fn check(requests: &str, replies: &str) {
    let [requests, replies] = [requests, replies].map(|text| text.replace('\n', "\r\n"));
    assert_eq!(talk(&requests), replies);
}

/// The replies of `bench` to a conversation; both without the CR of their lines.
fn say(bench: &mut Bench, requests: &str) -> String {
    bench.replies.clear();
    bench.feed(requests.replace('\n', "\r\n").as_bytes());
    String::from_utf8_lossy(&bench.replies).replace("\r\n", "\n")
}

#[test]
fn text_commands_store_and_return_values() {
    check(
        "set a 5 0 3\nabc\nget a b\ngets a\nadd a 0 0 1\nx\nreplace a 1 0 2\nxy\nappend a 0 0 1\n\
         z\nprepend a 0 0 1\nw\nget a\n",
        "STORED\nVALUE a 5 3\nabc\nEND\nVALUE a 5 3 1\nabc\nEND\nNOT_STORED\nSTORED\nSTORED\n\
         STORED\nVALUE a 1 4\nwxyz\nEND\n",
    );
    check(
        "cas a 0 0 1 1\nx\nset a 0 0 1\n1\ncas a 0 0 1 7\n2\ncas a 0 0 1 1\n2\nincr a 98\n\
         decr a 1\ndecr a 95\nget a\nincr b 1\nincr a x\n",
        "NOT_FOUND\nSTORED\nEXISTS\nSTORED\n100\n99\n4\nVALUE a 0 3\n4  \nEND\nNOT_FOUND\n\
         CLIENT_ERROR invalid numeric delta argument\n",
    );
    check(
        "delete a\nset a 0 0 0 noreply\n\ndelete a\ndelete a 1\n",
        "NOT_FOUND\nDELETED\nCLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\n",
    );
    check(
        "set a 0 -1 1\nx\nget a\ntouch a 1\nverbosity 1\nflush_all\nflush_all x\n",
        "STORED\nEND\nNOT_FOUND\nOK\nOK\nCLIENT_ERROR invalid exptime argument\n",
    );
    check("gat 0\ngat x a\nget\nquit\nget a\n", "END\nCLIENT_ERROR invalid exptime argument\nERROR\n");
}

#[test]
fn errors_are_those_of_memcached() {
    check(
        "\nx\nset a 0 0\nset a b 0 1\nset a 0 0 -1\nget\n",
        "ERROR\nERROR\nERROR\nCLIENT_ERROR bad command line format\n\
         CLIENT_ERROR bad command line format\nERROR\n",
    );
    check("set a 0 0 1\nxyz\nmn\n", "CLIENT_ERROR bad data chunk\nERROR\nMN\n");
    let key = "k".repeat(251);
    check(
        &format!("get a {key}\nset {key} 0 0 1\ndelete {key}\n"),
        &"CLIENT_ERROR bad command line format\n".repeat(3),
    );
    let (len, value) = ((1 << 20) + 1, "v".repeat((1 << 20) + 1));
    check(
        &format!("set a 0 0 1\nx\nset a 0 0 {len}\n{value}\nget a\n"),
        "STORED\nSERVER_ERROR object too large for cache\nEND\n",
    );
    check(
        &format!("set a 0 0 {}\n{}\nappend a 0 0 1\nx\n", 1 << 20, "v".repeat(1 << 20)),
        "STORED\nNOT_STORED\n",
    );
}

#[test]
fn lines_that_are_too_long_and_other_protocols_end_the_connection() {
    let mut bench = Bench::new(LARGE);
    assert!(bench.feed(b"mn\r\n") && bench.feed(&[b'x'; 2048]) && !bench.feed(b"x"));
    assert_eq!(bench.replies, b"MN\r\n");
    assert!(!Bench::new(LARGE).feed(&[0x80, 0, 0, 0]));
    let mut bench = Bench::new(LARGE);
    assert!(bench.feed(b"  gets") && bench.feed(&b" k".repeat(30_000)) && bench.feed(b"\r\n"));
    assert_eq!(bench.replies, b"END\r\n");
    assert!(bench.feed(b"get ") && !bench.feed(&b"x".repeat(65_536)));
    assert_eq!(bench.replies, b"END\r\nCLIENT_ERROR line too long\r\n");
}

#[test]
fn many_large_values_are_returned_in_turns() {
    let mut bench = Bench::new(LARGE);
    let value = "v".repeat(100_000);
    bench.feed(format!("set a 0 0 100000\r\n{value}\r\nget{}\r\nmn\r\n", " a".repeat(50)).as_bytes());
    let expected =
        format!("STORED\r\n{}END\r\nMN\r\n", format!("VALUE a 0 100000\r\n{value}\r\n").repeat(50));
    assert!(bench.replies == expected.as_bytes());
}

#[test]
fn meta_commands_return_what_their_flags_request() {
    check(
        "mn\nmg a\nmg a k O9 v\nmg a q\nms a 2 T0 F7 c\nhi\nmg a s v f c t k Oabc h\nmg a h\n",
        "MN\nEN\nEN ka O9\nHD c1\nVA 2 s2 f7 c1 t-1 ka Oabc h0\nhi\nHD h1\n",
    );
    check(
        "ms a 1 ME\nx\nms a 1 ME k\ny\nms a 1 MA s\ny\nms b 1 MR O1\nx\nms a 1 C9 q\nz\n\
         ms a 1 C2 q\nz\nms c 1 MA N0\nx\nmg c v\n",
        "HD\nNS ka\nHD s2\nNS O1\nEX\nHD\nVA 1\nx\n",
    );
    check(
        "ms YQ== 1 b\nx\nmg a v k\nmg YQ== b k\nget a\n",
        "HD\nVA 1 kYQ== b\nx\nHD kYQ== b\nVALUE a 0 1\nx\nEND\n",
    );
    check(
        "md a\nms a 1\nx\nms a 1 S1\nx\nmd a C9 k\nmd a q\nmg a\n",
        "NF\nHD\nCLIENT_ERROR invalid flag\nEX ka\nEN\n",
    );
    check(
        "ma n\nma n N0 J5 v\nma n v\nma n D4 v t c\nma n MD D100 v\nma n MX\nma n Cx\nms n 1 T0\n\
         x\nma n\nma n q\n",
        "NF\nVA 1\n5\nVA 1\n6\nVA 2 t-1 c3\n10\nVA 1\n0\nCLIENT_ERROR invalid mode for ma M token\n\
         CLIENT_ERROR invalid or duplicate flag\nHD\n\
         CLIENT_ERROR cannot increment or decrement non-numeric value\n\
         CLIENT_ERROR cannot increment or decrement non-numeric value\n",
    );
    check(
        "mg a b\nmg a v v\nmg a !\nmg a O12345678901234567890123456789012\n",
        "CLIENT_ERROR error decoding key\nCLIENT_ERROR duplicate flag\nCLIENT_ERROR invalid flag\n\
         CLIENT_ERROR opaque token too long\n",
    );
}

#[test]
fn one_client_wins_the_right_to_replace_a_missing_or_stale_value() {
    check(
        "mg a N30 v t\nmg a N30 v\nms a 1 T0\nx\nmg a v\nmd a I T30\nmg a v\nmg a v t\n",
        "VA 0 t30 W\n\nVA 0 Z\n\nHD\nVA 1\nx\nHD\nVA 1 X W\nx\nVA 1 t30 Z X\nx\n",
    );
    check(
        "ms a 1 T10\nx\nmg a R5\nmg a R20\nmg a R20\nmd a x I\nmg a v s\n",
        "HD\nHD\nHD W\nHD Z\nHD\nVA 0 s0 X W\n\n",
    );
    // An older version is stored as a stale one.
    check(
        "ms a 1 E100\nx\nms a 1 C50 I\ny\nmg a v c\nms a 1 C50\nz\nms a 1 C1 E200\nz\n\
         mg a c v C200\nmg a v C7\n",
        "HD\nHD\nVA 1 c1 X W\ny\nEX\nHD\nHD c200\nVA 1\nz\n",
    );
}

#[test]
fn items_expire_at_their_second_and_a_flush_may_wait() {
    let mut bench = Bench::new(LARGE);
    let mut say = |seconds: u32, requests: &str, replies: &str| {
        bench.pass(seconds);
        bench.replies.clear();
        bench.feed(requests.replace('\n', "\r\n").as_bytes());
        assert_eq!(String::from_utf8_lossy(&bench.replies), replies.replace('\n', "\r\n"));
    };
    say(
        0,
        &format!("set a 0 10 1\nx\nset b 0 {} 1\ny\nset c 0 0 1\nz\n", START + 20),
        "STORED\nSTORED\nSTORED\n",
    );
    say(9, "mg a t\nmg b t l\n", "HD t1\nHD t11 l9\n");
    say(1, "mg a\ngat 50 b\ntouch c 7\n", "EN\nVALUE b 0 1\ny\nEND\nTOUCHED\n");
    say(15, "mg b t\nmg c\nflush_all 10\nset d 0 0 1\nx\n", "HD t35\nEN\nOK\nSTORED\n");
    say(9, "get b d\n", "VALUE b 0 1\ny\nVALUE d 0 1\nx\nEND\n");
    say(1, "get b d\nset d 0 0 1\ny\nget d\n", "END\nSTORED\nVALUE d 0 1\ny\nEND\n");
}

#[test]
fn statistics_count_commands_and_reset_clears_them() {
    let text = talk("set a 0 0 1\r\nx\r\nget a b\r\nincr a 1\r\ndelete a\r\nstats\r\n");
    for line in
        ["cmd_set 1", "get_hits 1", "get_misses 1", "delete_hits 1", "curr_items 0", "limit_maxbytes 8388608"]
    {
        assert!(text.contains(&format!("STAT {line}\r\n")), "{line} in {text}");
    }
    let text = talk("get a\r\nstats reset\r\nstats\r\nstats x\r\n");
    assert!(
        text.contains("RESET\r\n")
            && text.contains("STAT get_misses 0\r\n")
            && text.ends_with("END\r\nERROR\r\n")
    );
}
