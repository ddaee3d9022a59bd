//! Parser of packetdrill's language, without its parts for other protocols and for kernels.

use super::syntax::{Action, Argument, Call, EcnSpec, Event, IcmpSpec, OptionSpec, PacketSpec, Script, When};
use super::token::{Kind, Token, tokens};
use crate::segment::{TcpOption, flag};
use std::str::FromStr;

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

    fn packet(&mut self) -> Result<PacketSpec> {
        let ecn = self.ecn()?;
        let ports = self.ports()?;
        let flags = self.flags()?;
        let (seq, len) = self.sequence()?;
        let ack = if self.accept_word("ack") { Some(self.number_or_any()?) } else { None };
        let window = if self.accept_word("win") { self.number_or_any()? } else { None };
        let urgent = if self.accept_word("urg") { self.number()? } else { 0 };
        let options = self.options()?;
        Ok(PacketSpec { ecn, ports, flags, seq, len, ack, window, urgent, options })
    }

    fn ecn(&mut self) -> Result<EcnSpec> {
        let close = match (self.accept('['), self.peek().map(|token| &token.kind)) {
            (true, _) => ']',
            (false, Some(Kind::Punctuation('('))) => {
                self.at += 1;
                ')'
            }
            _ => return Ok(EcnSpec::Any),
        };
        let ecn = match self.word()?.as_str() {
            "noecn" => EcnSpec::Is(0),
            "ect1" => EcnSpec::Is(1),
            "ect0" => EcnSpec::Is(2),
            "ce" => EcnSpec::Is(3),
            "ect01" => EcnSpec::Capable,
            _ => {
                self.at -= 1;
                return self.error("noecn, ect0, ect1, ect01 or ce");
            }
        };
        self.expect(close).map(|()| ecn)
    }

    fn ports(&mut self) -> Result<Option<(u16, u16)>> {
        let next = self.tokens.get(self.at + 1).map(|token| &token.kind);
        if next != Some(&Kind::Punctuation('>')) {
            return Ok(None);
        }
        let source = self.number()?;
        self.expect('>')?;
        Ok(Some((source, self.number()?)))
    }

    fn flags(&mut self) -> Result<u8> {
        if self.accept('-') {
            return Ok(0);
        }
        let mut flags = 0;
        if let Some(Kind::Word(word)) = self.peek().map(|token| token.kind.clone()) {
            for letter in word.chars() {
                flags |= flag_of(letter).ok_or((self.line(), format!("invalid TCP flag {letter}")))?;
            }
            self.at += 1;
        }
        if self.accept('.') {
            flags |= flag::ACK;
        }
        if flags == 0 { self.error("TCP flags") } else { Ok(flags) }
    }

    /// `start:end(len)`.
    fn sequence(&mut self) -> Result<(u32, u16)> {
        let start: u32 = self.number()?;
        self.expect(':')?;
        let end: u32 = self.number()?;
        self.expect('(')?;
        let len: u16 = self.number()?;
        self.expect(')')?;
        if start.wrapping_add(len.into()) == end {
            Ok((start, len))
        } else {
            Err((self.line(), format!("{start}:{end}({len}): inconsistent sequence numbers")))
        }
    }

    fn options(&mut self) -> Result<Option<Vec<OptionSpec>>> {
        // An inbound packet may follow; its `<` does not come directly after a packet, but after a time.
        if !self.accept('<') {
            return Ok(Some(Vec::new()));
        }
        if self.accept_ellipsis() {
            return self.expect('>').map(|()| None);
        }
        let mut options = vec![self.option()?];
        while self.accept(',') {
            options.push(self.option()?);
        }
        self.expect('>').map(|()| Some(options))
    }

    fn option(&mut self) -> Result<OptionSpec> {
        let name = self.word()?;
        Ok(OptionSpec::Is(match name.as_str() {
            "nop" => TcpOption::Nop,
            "eol" => TcpOption::Eol,
            "mss" => TcpOption::Mss(self.number()?),
            "wscale" => TcpOption::WindowScale(self.number()?),
            "sackOK" => TcpOption::SackOk,
            "sack" => TcpOption::Sack(self.blocks()?),
            "TS" => return self.timestamps(),
            "FO" => return self.cookie(),
            _ => {
                self.at -= 1;
                return self.error("a TCP option");
            }
        }))
    }

    fn blocks(&mut self) -> Result<Vec<(u32, u32)>> {
        let mut blocks = Vec::new();
        while matches!(self.peek(), Some(Token { kind: Kind::Integer(_), .. })) {
            let start = self.number()?;
            self.expect(':')?;
            blocks.push((start, self.number()?));
        }
        Ok(blocks)
    }

    fn timestamps(&mut self) -> Result<OptionSpec> {
        let named = |parser: &mut Self, word| {
            if parser.accept_word(word) { parser.number_or_any() } else { parser.error(word) }
        };
        let (value, echo) = (named(self, "val")?, named(self, "ecr")?);
        Ok(match (value, echo) {
            (Some(value), Some(echo)) => OptionSpec::Is(TcpOption::Timestamps(value, echo)),
            _ => OptionSpec::Timestamps { value, echo },
        })
    }

    fn cookie(&mut self) -> Result<OptionSpec> {
        if self.accept('*') {
            return Ok(OptionSpec::AnyCookie);
        }
        let digits = match self.peek().map(|token| token.kind.clone()) {
            Some(Kind::Integer(text) | Kind::Word(text)) => {
                self.at += 1;
                text
            }
            _ => String::new(),
        };
        let bytes = digits
            .as_bytes()
            .chunks(2)
            .map(|pair| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok()));
        let cookie = bytes.collect::<Option<Vec<u8>>>().ok_or((self.line(), "invalid cookie".to_string()))?;
        Ok(OptionSpec::Is(TcpOption::FastOpen(cookie)))
    }

    fn icmp(&mut self) -> Result<IcmpSpec> {
        let kind = self.word()?;
        let code = match self.peek().map(|token| token.kind.clone()) {
            Some(Kind::Word(word)) if word != "mtu" => Some(self.word()?),
            _ => None,
        };
        let mtu = if self.accept_word("mtu") { Some(self.number()?) } else { None };
        self.expect('[')?;
        let (seq, _) = self.sequence()?;
        self.expect(']')?;
        Ok(IcmpSpec { kind, code, mtu, seq })
    }

    /// `[...end] name(arguments) = result [error (text)]`.
    fn call(&mut self) -> Result<Call> {
        let end = if self.accept_ellipsis() {
            let is_relative = self.accept('+');
            let time = self.time()?;
            Some(if is_relative { When::Relative(time) } else { When::Absolute(time) })
        } else {
            None
        };
        let name = self.word()?;
        self.expect('(')?;
        let arguments = self.list(')')?;
        self.expect('=')?;
        let is_negative = self.accept('-');
        let result: i64 = self.number()?;
        let error = if is_negative { Some(self.word()?) } else { None };
        if error.is_some() && self.accept('(') {
            while !self.accept(')') {
                self.next().ok_or((self.line(), "expected )".to_string()))?;
            }
        }
        Ok(Call { name, arguments, result: if is_negative { -result } else { result }, error, end })
    }

    fn list(&mut self, close: char) -> Result<Vec<Argument>> {
        let mut arguments = Vec::new();
        while !self.accept(close) {
            arguments.push(self.argument()?);
            if !self.accept(',') && self.peek().is_none_or(|token| token.kind != Kind::Punctuation(close)) {
                return self.error(&close.to_string());
            }
        }
        Ok(arguments)
    }

    fn argument(&mut self) -> Result<Argument> {
        if self.accept_ellipsis() {
            return Ok(Argument::Any);
        }
        if self.accept('[') {
            return self.list(']').map(Argument::Array);
        }
        if self.accept('{') {
            return self.fields();
        }
        if self.accept('-') {
            return self.number::<i64>().map(|number| Argument::Integer(-number));
        }
        match self.next() {
            Some(Kind::Integer(text)) => text
                .parse()
                .map(Argument::Integer)
                .map_err(|_| (self.line(), format!("invalid number {text}"))),
            Some(Kind::Text(text)) => Ok(Argument::Name(text)),
            Some(Kind::Word(mut name)) => {
                while self.accept('|') {
                    name = format!("{name}|{}", self.word()?);
                }
                Ok(Argument::Name(name))
            }
            _ => {
                self.at -= 1;
                self.error("an argument")
            }
        }
    }

    fn fields(&mut self) -> Result<Argument> {
        let mut fields = Vec::new();
        while !self.accept('}') {
            let name = self.word()?;
            self.expect('=')?;
            fields.push((name, self.number()?));
            self.accept(',');
        }
        Ok(Argument::Fields(fields))
    }
}

fn flag_of(letter: char) -> Option<u8> {
    Some(match letter {
        'S' => flag::SYN,
        'F' => flag::FIN,
        'R' => flag::RST,
        'P' => flag::PSH,
        'U' => flag::URG,
        'E' => flag::ECE,
        'W' => flag::CWR,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn times_calls_and_errors() {
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
