//! Parser of packetdrill's language, without its parts for other protocols and for kernels.

use super::syntax::{Action, Event, Script, When};
use super::token::{Kind, Token, tokens};
use std::str::FromStr;

mod call;
mod packet;

/// An error with its line.
pub(crate) type Error = (usize, String);
type Result<T> = std::result::Result<T, Error>;

/// Parses a script.
pub(crate) fn parse(text: &str) -> Result<Script> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0 };
    let mut script = Script::default();
    while let Some(token) = parser.peek() {
        match token.kind.clone() {
            Kind::Option(name) => {
                parser.at += 1;
                script.options.push((name, parser.option_value()?));
            }
            Kind::Commands(text) => {
                parser.at += 1;
                script.settings.extend(settings(&text));
            }
            _ => script.events.push(parser.event()?),
        }
    }
    Ok(script)
}

/// Words of commands that assign a value: `sysctl -q net.ipv4.tcp_ecn=1`.
fn settings(commands: &str) -> Vec<(String, String)> {
    let words = commands.split_whitespace().filter_map(|word| word.split_once('='));
    words.map(|(name, value)| (name.to_string(), value.trim_matches('"').to_string())).collect()
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn line(&self) -> usize {
        self.peek().or(self.tokens.last()).map_or(0, |token| token.line)
    }

    fn error<T>(&self, expected: &str) -> Result<T> {
        let actual = self.peek().map_or("the end".into(), |token| format!("{:?}", token.kind));
        Err((self.line(), format!("expected {expected}, not {actual}")))
    }

    fn next(&mut self) -> Option<Kind> {
        let kind = self.peek()?.kind.clone();
        self.at += 1;
        Some(kind)
    }

    fn accept(&mut self, c: char) -> bool {
        let is = self.peek().is_some_and(|token| token.kind == Kind::Punctuation(c));
        self.at += usize::from(is);
        is
    }

    fn accept_word(&mut self, word: &str) -> bool {
        let is = matches!(self.peek(), Some(Token { kind: Kind::Word(text), .. }) if text == word);
        self.at += usize::from(is);
        is
    }

    fn accept_ellipsis(&mut self) -> bool {
        let is = self.peek().is_some_and(|token| token.kind == Kind::Ellipsis);
        self.at += usize::from(is);
        is
    }

    fn expect(&mut self, c: char) -> Result<()> {
        if self.accept(c) { Ok(()) } else { self.error(&c.to_string()) }
    }

    fn word(&mut self) -> Result<String> {
        if let Some(Kind::Word(word)) = self.next() {
            Ok(word)
        } else {
            self.at -= 1;
            self.error("a word")
        }
    }

    fn number<T: FromStr>(&mut self) -> Result<T> {
        if let Some(Kind::Integer(text)) = self.peek().map(|token| &token.kind)
            && let Ok(number) = text.parse()
        {
            self.at += 1;
            return Ok(number);
        }
        self.error("a number in range")
    }

    /// A number, or `None` for `*`.
    fn number_or_any<T: FromStr>(&mut self) -> Result<Option<T>> {
        if self.accept('*') { Ok(None) } else { self.number().map(Some) }
    }

    fn option_value(&mut self) -> Result<String> {
        if !self.accept('=') {
            return Ok(String::new());
        }
        match self.next() {
            Some(Kind::Integer(value) | Kind::Word(value) | Kind::Text(value)) => Ok(value),
            _ => self.error("a value"),
        }
    }

    fn event(&mut self) -> Result<Event> {
        let line = self.line();
        let when = self.when()?;
        let action = if self.accept('<') {
            if self.accept_word("icmp") {
                Action::Icmp(self.icmp()?)
            } else {
                Action::Inbound(self.packet()?)
            }
        } else if self.accept('>') {
            Action::Outbound(self.packet()?)
        } else {
            Action::Call(self.call()?)
        };
        let is_range = matches!(when, When::Any | When::AbsoluteRange(..) | When::RelativeRange(..));
        if is_range && !matches!(action, Action::Outbound(_)) {
            return Err((line, "only outbound packets have a range of times".into()));
        }
        Ok(Event { line, when, action })
    }

    fn when(&mut self) -> Result<When> {
        if self.accept('*') {
            return Ok(When::Any);
        }
        let is_relative = self.accept('+');
        let from = self.time()?;
        if !self.accept('~') {
            return Ok(if is_relative { When::Relative(from) } else { When::Absolute(from) });
        }
        if is_relative {
            self.expect('+')?;
        }
        let to = self.time()?;
        if to < from {
            return Err((self.line(), "time range is backwards".into()));
        }
        Ok(if is_relative { When::RelativeRange(from, to) } else { When::AbsoluteRange(from, to) })
    }

    fn time(&mut self) -> Result<u64> {
        if let Some(Kind::Float(micros)) = self.peek().map(|token| &token.kind) {
            let micros = *micros;
            self.at += 1;
            return Ok(micros);
        }
        self.number::<u64>().map(|seconds| seconds * 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::syntax::IcmpSpec;

    fn packet(text: &str) -> String {
        match parse(text).unwrap().events.remove(0).action {
            Action::Inbound(packet) | Action::Outbound(packet) => packet.to_string(),
            action => panic!("{action:?}"),
        }
    }

    #[test]
    fn packets_are_printed_as_they_were_written() {
        for text in [
            "S 0:0(0) win 65535 <mss 1460,sackOK,TS val 100 ecr 0,nop,wscale 7>",
            "[ect0] P. 1:1001(1000) ack 1",
            "SEW 0:0(0) <...>",
            "[ce] 8080 > 40000 FPEWU. 7:8(1) ack * win 9 urg 3 <nop,nop,TS val * ecr 7>",
            ". 1:1(0) ack 1 win 257 <nop,nop,sack 1461:2921 1:5>",
            "S. 0:0(0) ack 1 <FO abcd1234>",
            "- 0:0(0) <FO *>",
            "R 4294967295:4294967295(0)",
        ] {
            assert_eq!(packet(&format!("+0 > {text}")), text);
            assert_eq!(packet(&format!("0.1 < {text}")), text);
        }
    }

    #[test]
    fn times_calls_and_icmp_errors_are_parsed() {
        let text = "--mtu=1400\n`sysctl -q net.ipv4.tcp_ecn=1`\n0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n\
            +.01...0.02 connect(3, ..., ...) = -1 ECONNREFUSED (Connection refused)\n\
            +.1~+.2 > S 0:0(0) <...>\n* > S 0:0(0) <...>\n1~2.5 > S 0:0(0) <...>\n\
            +0 setsockopt(3, SOL_SOCKET, SO_LINGER, {onoff=1, linger=0}, 8) = 0\n\
            +0 < icmp unreachable frag_needed mtu 1200 [1:1461(1460)]\n+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0";
        let script = parse(text).unwrap();
        assert_eq!(script.options, [("mtu".into(), "1400".into())]);
        assert_eq!(script.settings, [("net.ipv4.tcp_ecn".into(), "1".into())]);
        let whens: Vec<_> = script.events.iter().map(|event| event.when).collect();
        assert_eq!(whens[1..3], [When::Relative(10_000), When::RelativeRange(100_000, 200_000)]);
        assert_eq!(whens[3..5], [When::Any, When::AbsoluteRange(1_000_000, 2_500_000)]);
        let Action::Call(call) = &script.events[1].action else { panic!("a call") };
        assert_eq!((call.end, call.result), (Some(When::Absolute(20_000)), -1));
        assert_eq!(call.error.as_deref(), Some("ECONNREFUSED"));
        let icmp = IcmpSpec {
            kind: "unreachable".into(),
            code: Some("frag_needed".into()),
            mtu: Some(1200),
            seq: 1,
        };
        assert_eq!(script.events[6].action, Action::Icmp(icmp));
    }

    #[test]
    fn errors_name_the_line() {
        assert_eq!(parse("+0 > S 0:1(0) <...>").unwrap_err().0, 1);
        assert_eq!(
            parse("+0 > S 0:0(0) <...>\n+0 < Q 0:0(0)").unwrap_err(),
            (2, "invalid TCP flag Q".into())
        );
        assert!(parse("+0~+1 close(3) = 0").is_err() && parse("+0 close(3)").is_err());
    }
}
