//! System calls and their arguments.

use super::{Parser, Result};
use crate::script::syntax::{Argument, Call, When};
use crate::script::token::Kind;

impl Parser {
    /// `[...end] name(arguments) = result [error (text)]`.
    pub(super) fn call(&mut self) -> Result<Call> {
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
