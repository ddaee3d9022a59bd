//! Filters of captures: programs of the classic BPF machine (`McCanne`, Jacobson: "The BSD Packet Filter", 1993; Linux,
//! Documentation/networking/filter.rst), as compilers of tcpdump's syntax produce them.
//!
//! Programs come from another process. They are validated before use: jumps go forward and stay inside, so that a run
//! executes each instruction at most once. A program sees the head of a packet; a load beyond it rejects the packet, as
//! one beyond the packet does.

/// Maximum number of instructions, as in the Linux kernel.
const MOST: usize = 4096;
/// Cells of scratch memory.
const CELLS: usize = 16;

/// One instruction: operation, jumps if true and if false, and operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    k: u32,
}

/// A validated program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter(Vec<Instruction>);

/// A program is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// No instruction, or too many.
    #[error("the filter has {0} instructions: expected 1 to {MOST}")]
    Length(usize),
    /// Text that is not a number of the right size.
    #[error("\"{0}\" is not an instruction of a filter")]
    Text(String),
    /// Unknown operation, a jump out of the program, or another operand out of range.
    #[error("instruction {0} of the filter is not valid")]
    Instruction(usize),
}

/// Classes of operations.
const CLASS: u16 = 0x07;
const LD: u16 = 0x00;
const LDX: u16 = 0x01;
const ST: u16 = 0x02;
const STX: u16 = 0x03;
const ALU: u16 = 0x04;
const JMP: u16 = 0x05;
const RET: u16 = 0x06;
/// The operand is X, not `k`.
const X: u16 = 0x08;

impl std::str::FromStr for Filter {
    type Err = FilterError;

    /// Instructions as `tcpdump -ddd` prints them, without their number: `code jt jf k`, separated by `;` or lines.
    fn from_str(text: &str) -> Result<Self, FilterError> {
        let lines = text.split([';', '\n']).map(str::trim).filter(|line| !line.is_empty());
        Self::validate(lines.map(instruction).collect::<Result<_, _>>()?)
    }
}

fn instruction(line: &str) -> Result<Instruction, FilterError> {
    let bad = || FilterError::Text(line.chars().take(40).collect());
    let mut words = line.split(' ');
    let mut word = || words.next().and_then(|word| word.parse::<u32>().ok()).ok_or_else(bad);
    let (code, if_true, if_false, k) = (word()?, word()?, word()?, word()?);
    let small = |word: u32| u8::try_from(word).map_err(|_| bad());
    let code = u16::try_from(code).map_err(|_| bad())?;
    Ok(Instruction { code, if_true: small(if_true)?, if_false: small(if_false)?, k })
}

impl Filter {
    fn validate(program: Vec<Instruction>) -> Result<Self, FilterError> {
        if !(1..=MOST).contains(&program.len()) {
            return Err(FilterError::Length(program.len()));
        }
        let is_valid = |(at, i): (usize, &Instruction)| {
            let left = (program.len() - at - 1) as u64;
            match i.code & CLASS {
                LD | LDX if i.code & 0xe0 == 0x60 => (i.k as usize) < CELLS,
                LD => matches!(i.code & !0x18, 0x00 | 0x20 | 0x40 | 0x80) && i.code & 0x18 != 0x18,
                LDX => matches!(i.code, 0x01 | 0x81 | 0xb1),
                ST | STX => (i.k as usize) < CELLS,
                ALU => is_arithmetic(*i),
                JMP if i.code & 0xf0 == 0 => u64::from(i.k) < left,
                JMP => i.code & 0xf0 <= 0x40 && u64::from(i.if_true.max(i.if_false)) < left,
                RET => true,
                _ => matches!(i.code, 0x07 | 0x87),
            }
        };
        let bad = program.iter().enumerate().position(|instruction| !is_valid(instruction));
        let returns = program.last().is_some_and(|last| last.code & CLASS == RET);
        match bad {
            Some(at) => Err(FilterError::Instruction(at)),
            None if !returns => Err(FilterError::Instruction(program.len() - 1)),
            None => Ok(Self(program)),
        }
    }

    /// Whether the program accepts a packet of `len` bytes with this head.
    pub fn accepts(&self, head: &[u8], len: usize) -> bool {
        self.run(head, len as u32).is_some_and(|accepted| accepted > 0)
    }

    fn run(&self, head: &[u8], len: u32) -> Option<u32> {
        let (mut a, mut x, mut cells, mut at) = (0u32, 0u32, [0u32; CELLS], 0);
        loop {
            let i = *self.0.get(at)?;
            at += 1;
            let cell = i.k as usize % CELLS;
            let operand = if i.code & X == 0 { i.k } else { x };
            match i.code & CLASS {
                LD => a = value(i, head, (len, x), cells[cell])?,
                LDX => x = value(i, head, (len, x), cells[cell])?,
                ST => cells[cell] = a,
                STX => cells[cell] = x,
                ALU => a = compute(i.code, a, operand)?,
                JMP if i.code & 0xf0 == 0 => at += i.k as usize,
                JMP => at += usize::from(if holds(i.code, a, operand) { i.if_true } else { i.if_false }),
                RET => return Some(if i.code & 0x18 == 0x10 { a } else { i.k }),
                _ if i.code & 0x80 == 0 => x = a,
                _ => a = x,
            }
        }
    }
}

fn is_arithmetic(i: Instruction) -> bool {
    let divides = matches!(i.code & 0xf0, 0x30 | 0x90);
    i.code & 0xf0 <= 0xa0 && !(divides && i.code & X == 0 && i.k == 0)
}

/// The value of a load. Returns `None` beyond the head.
fn value(i: Instruction, head: &[u8], (len, x): (u32, u32), cell: u32) -> Option<u32> {
    let at = match i.code & 0xe0 {
        0x00 => return Some(i.k),
        0x60 => return Some(cell),
        0x80 => return Some(len),
        0x20 => i.k,
        0xa0 => return head.get(i.k as usize).map(|byte| u32::from(byte & 0xf) * 4),
        _ => i.k.checked_add(x)?,
    } as usize;
    let bytes = |n: usize| head.get(at..at.checked_add(n)?);
    let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
    bytes(match i.code & 0x18 {
        0x00 => 4,
        0x08 => 2,
        _ => 1,
    })
    .map(number)
}

/// Returns `None` for a division by zero, which rejects the packet.
fn compute(code: u16, a: u32, operand: u32) -> Option<u32> {
    Some(match code & 0xf0 {
        0x00 => a.wrapping_add(operand),
        0x10 => a.wrapping_sub(operand),
        0x20 => a.wrapping_mul(operand),
        0x30 => a.checked_div(operand)?,
        0x40 => a | operand,
        0x50 => a & operand,
        0x60 => a.checked_shl(operand).unwrap_or(0),
        0x70 => a.checked_shr(operand).unwrap_or(0),
        0x80 => a.wrapping_neg(),
        0x90 => a.checked_rem(operand)?,
        _ => a ^ operand,
    })
}

fn holds(code: u16, a: u32, operand: u32) -> bool {
    match code & 0xf0 {
        0x10 => a == operand,
        0x20 => a > operand,
        0x30 => a >= operand,
        _ => a & operand != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `tcpdump -ddd 'tcp port 80'` for Ethernet.
    const TCP_PORT_80: &str = "40 0 0 12;21 0 6 34525;48 0 0 20;21 0 15 6;40 0 0 54;21 12 0 80;40 0 0 56;21 10 11 80;\
        21 0 10 2048;48 0 0 23;21 0 8 6;40 0 0 20;69 6 0 8191;177 0 0 14;72 0 0 14;21 2 0 80;72 0 0 16;21 0 1 80;\
        6 0 0 262144;6 0 0 0";

    fn tcp(source: u16, destination: u16, fragment: u16) -> Vec<u8> {
        let mut frame = vec![0; 60];
        frame[12..14].copy_from_slice(&[8, 0]);
        (frame[14], frame[23]) = (0x45, 6);
        frame[20..22].copy_from_slice(&fragment.to_be_bytes());
        frame[34..36].copy_from_slice(&source.to_be_bytes());
        frame[36..38].copy_from_slice(&destination.to_be_bytes());
        frame
    }

    #[test]
    fn a_compiled_filter_accepts_its_packets() {
        let filter: Filter = TCP_PORT_80.parse().unwrap();
        let accepts = |frame: &[u8]| filter.accepts(frame, frame.len());
        assert!(accepts(&tcp(80, 9, 0)) && accepts(&tcp(9, 80, 0)));
        assert!(!accepts(&tcp(9, 9, 0)) && !accepts(&tcp(80, 9, 5)), "a later fragment has no ports");
        assert!(!accepts(&tcp(80, 9, 0)[..30]), "a load beyond the head rejects the packet");
    }

    #[test]
    fn invalid_programs_are_refused() {
        for (text, error) in [
            ("", FilterError::Length(0)),
            ("6 0 0", FilterError::Text("6 0 0".into())),
            ("6 0 256 0", FilterError::Text("6 0 256 0".into())),
            ("40 0 0 12", FilterError::Instruction(0)),
            ("21 1 0 9;6 0 0 1", FilterError::Instruction(0)),
            ("5 0 0 4294967295;6 0 0 1", FilterError::Instruction(0)),
            ("96 0 0 16;6 0 0 1", FilterError::Instruction(0)),
            ("52 0 0 0;6 0 0 1", FilterError::Instruction(0)),
        ] {
            assert_eq!(text.parse::<Filter>(), Err(error), "{text}");
        }
    }

    proptest! {
        /// Every program that is accepted ends.
        #[test]
        fn valid_programs_end(
            program in prop::collection::vec(
                ((0u16..256), any::<u8>(), any::<u8>(), prop_oneof![0u32..40, any::<u32>()]), 1..40),
            head in prop::collection::vec(any::<u8>(), 14..128),
        ) {
            let text: Vec<_> = program.iter().map(|(c, t, f, k)| format!("{c} {t} {f} {k}")).collect();
            if let Ok(filter) = text.join(";").parse::<Filter>() {
                filter.accepts(&head, head.len());
            }
            let returning = format!("{};6 0 0 1", text.join(";"));
            if let Ok(filter) = returning.parse::<Filter>() {
                filter.accepts(&head, head.len());
            }
        }
    }
}
