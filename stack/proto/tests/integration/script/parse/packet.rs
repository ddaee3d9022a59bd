//! TCP packets with their options, and ICMP messages.

use super::{Parser, Result};
use crate::script::syntax::{EcnSpec, IcmpSpec, OptionSpec, PacketSpec};
use crate::script::token::{Kind, Token};
use crate::segment::{TcpOption, flag};

impl Parser {
    pub(super) fn packet(&mut self) -> Result<PacketSpec> {
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

    pub(super) fn icmp(&mut self) -> Result<IcmpSpec> {
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
