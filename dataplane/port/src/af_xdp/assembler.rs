//! Minimal eBPF assembler: instruction encoding and jumps to labels.
//!
//! The encoding follows the kernel's "BPF Instruction Set Specification". Programs are checked only by the kernel's
//! verifier.

/// A register. [`Register::CONTEXT`] holds the program's argument at entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Register(u8);

impl Register {
    /// Return value of a call and of the program.
    pub(super) const RESULT: Self = Self(0);
    /// The first argument.
    pub(super) const CONTEXT: Self = Self(1);
    /// End of the stack frame, which begins 512 bytes before it.
    pub(super) const STACK: Self = Self(10);

    /// Register `n`, 0 to 9.
    pub(super) const fn of(n: u8) -> Self {
        Self(n)
    }
}

/// Size of a load or store.
#[derive(Clone, Copy, Debug)]
pub(super) enum Width {
    Byte = 0x10,
    Half = 0x08,
    Word = 0x00,
    Double = 0x18,
}

/// `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    code: u8,
    /// Destination in the lower four bits, source in the upper ones.
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// Jump target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label(usize);

/// A program under construction.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    code: Vec<Instruction>,
    labels: Vec<Option<usize>>,
    /// Index of each jump instruction, and its label.
    jumps: Vec<(usize, Label)>,
}

const CLASS_LOAD: u8 = 0x61;
const CLASS_STORE: u8 = 0x63;
const MOVE: u8 = 0xb7;
const MOVE_REGISTER: u8 = 0xbf;
const ADD: u8 = 0x07;
const ADD_REGISTER: u8 = 0x0f;
const AND: u8 = 0x57;
const SHIFT_LEFT: u8 = 0x67;
const SHIFT_RIGHT: u8 = 0x77;
const XOR: u8 = 0xa7;
const SUBTRACT_REGISTER: u8 = 0x1f;
/// 32-bit move, which clears the upper half.
const MOVE_WORD: u8 = 0xbc;
const TO_BIG_ENDIAN: u8 = 0xdc;
const JUMP: u8 = 0x05;
const JUMP_EQUAL: u8 = 0x15;
const JUMP_NOT_EQUAL: u8 = 0x55;
const JUMP_BELOW: u8 = 0xa5;
const JUMP_ABOVE_REGISTER: u8 = 0x2d;
const JUMP_NOT_EQUAL_REGISTER: u8 = 0x5d;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const LOAD_WIDE: u8 = 0x18;
/// Marks the constant of a wide load as a map descriptor (`BPF_PSEUDO_MAP_FD`).
const IS_MAP: u8 = 1;
/// Marks it as the descriptor of a map whose first value's address is loaded (`BPF_PSEUDO_MAP_VALUE`).
const IS_MAP_VALUE: u8 = 2;

impl Assembler {
    fn push(&mut self, code: u8, to: Register, from: u8, offset: i16, immediate: i32) -> &mut Self {
        self.code.push(Instruction { code, registers: to.0 | from << 4, offset, immediate });
        self
    }

    /// `to = value`
    pub(super) fn set(&mut self, to: Register, value: i32) -> &mut Self {
        self.push(MOVE, to, 0, 0, value)
    }

    /// `to = from`
    pub(super) fn copy(&mut self, to: Register, from: Register) -> &mut Self {
        self.push(MOVE_REGISTER, to, from.0, 0, 0)
    }

    /// `to += value`
    pub(super) fn add(&mut self, to: Register, value: i32) -> &mut Self {
        self.push(ADD, to, 0, 0, value)
    }

    /// `to += from`
    pub(super) fn add_register(&mut self, to: Register, from: Register) -> &mut Self {
        self.push(ADD_REGISTER, to, from.0, 0, 0)
    }

    /// `to &= mask`
    pub(super) fn and(&mut self, to: Register, mask: i32) -> &mut Self {
        self.push(AND, to, 0, 0, mask)
    }

    /// `to <<= bits`
    pub(super) fn shift_left(&mut self, to: Register, bits: i32) -> &mut Self {
        self.push(SHIFT_LEFT, to, 0, 0, bits)
    }

    /// `to >>= bits`, without sign.
    pub(super) fn shift_right(&mut self, to: Register, bits: i32) -> &mut Self {
        self.push(SHIFT_RIGHT, to, 0, 0, bits)
    }

    /// `to ^= mask`
    pub(super) fn xor(&mut self, to: Register, mask: i32) -> &mut Self {
        self.push(XOR, to, 0, 0, mask)
    }

    /// `to -= from`
    pub(super) fn subtract_register(&mut self, to: Register, from: Register) -> &mut Self {
        self.push(SUBTRACT_REGISTER, to, from.0, 0, 0)
    }

    /// `to = from`, the lower 32 bits.
    pub(super) fn copy_word(&mut self, to: Register, from: Register) -> &mut Self {
        self.push(MOVE_WORD, to, from.0, 0, 0)
    }

    /// Converts the lower 16 bits between host and network byte order, and clears the others.
    pub(super) fn swap_half(&mut self, to: Register) -> &mut Self {
        self.push(TO_BIG_ENDIAN, to, 0, 0, 16)
    }

    /// `memory[to + offset] = from`
    pub(super) fn store(&mut self, width: Width, to: Register, offset: i16, from: Register) -> &mut Self {
        self.push(CLASS_STORE | width as u8, to, from.0, offset, 0)
    }

    /// `to = memory[from + offset]`
    pub(super) fn load(&mut self, width: Width, to: Register, from: Register, offset: i16) -> &mut Self {
        self.push(CLASS_LOAD | width as u8, to, from.0, offset, 0)
    }

    /// `to = ` the map of `descriptor`
    pub(super) fn load_map(&mut self, to: Register, descriptor: i32) -> &mut Self {
        self.push(LOAD_WIDE, to, IS_MAP, 0, descriptor).push(0, Register::of(0), 0, 0, 0)
    }

    /// `to = ` the address of the only value of the array of `descriptor`.
    pub(super) fn load_map_value(&mut self, to: Register, descriptor: i32) -> &mut Self {
        self.push(LOAD_WIDE, to, IS_MAP_VALUE, 0, descriptor).push(0, Register::of(0), 0, 0, 0)
    }

    /// Creates a label, to be placed later.
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Places `label` at the next instruction.
    pub(super) fn place(&mut self, Label(label): Label) -> &mut Self {
        self.labels[label] = Some(self.code.len());
        self
    }

    fn jump_by(&mut self, code: u8, left: Register, right: u8, value: i32, to: Label) -> &mut Self {
        self.jumps.push((self.code.len(), to));
        self.push(code, left, right, 0, value)
    }

    /// Jumps to `to`.
    pub(super) fn jump(&mut self, to: Label) -> &mut Self {
        self.jump_by(JUMP, Register::of(0), 0, 0, to)
    }

    /// Jumps to `to` if `left == value`.
    pub(super) fn jump_if_equal(&mut self, left: Register, value: i32, to: Label) -> &mut Self {
        self.jump_by(JUMP_EQUAL, left, 0, value, to)
    }

    /// Jumps to `to` if `left != value`.
    pub(super) fn jump_unless_equal(&mut self, left: Register, value: i32, to: Label) -> &mut Self {
        self.jump_by(JUMP_NOT_EQUAL, left, 0, value, to)
    }

    /// Jumps to `to` if `left < value`, both without sign.
    pub(super) fn jump_if_below(&mut self, left: Register, value: i32, to: Label) -> &mut Self {
        self.jump_by(JUMP_BELOW, left, 0, value, to)
    }

    /// Jumps to `to` if `left > right`.
    pub(super) fn jump_if_above(&mut self, left: Register, right: Register, to: Label) -> &mut Self {
        self.jump_by(JUMP_ABOVE_REGISTER, left, right.0, 0, to)
    }

    /// Jumps to `to` if `left != right`.
    pub(super) fn jump_if_different(&mut self, left: Register, right: Register, to: Label) -> &mut Self {
        self.jump_by(JUMP_NOT_EQUAL_REGISTER, left, right.0, 0, to)
    }

    /// Calls a kernel helper function.
    pub(super) fn call(&mut self, helper: i32) -> &mut Self {
        self.push(CALL, Register::of(0), 0, 0, helper)
    }

    /// Returns [`Register::RESULT`] from the program.
    pub(super) fn exit(&mut self) -> &mut Self {
        self.push(EXIT, Register::of(0), 0, 0, 0)
    }

    /// Resolves all jumps and returns the program. A jump to a label that was never placed jumps to itself, which the
    /// verifier rejects.
    pub(super) fn finish(mut self) -> Vec<Instruction> {
        for (at, Label(label)) in self.jumps {
            let target = self.labels[label].unwrap_or(at);
            self.code[at].offset = (target.cast_signed() - at.cast_signed() - 1) as i16;
        }
        self.code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(code: &[Instruction]) -> Vec<[u8; 8]> {
        let one = |i: &Instruction| {
            let (offset, immediate) = (i.offset.to_le_bytes(), i.immediate.to_le_bytes());
            let mut bytes = [i.code, i.registers, offset[0], offset[1], 0, 0, 0, 0];
            bytes[4..].copy_from_slice(&immediate);
            bytes
        };
        code.iter().map(one).collect()
    }

    #[test]
    fn instructions_match_the_specification() {
        let mut a = Assembler::default();
        a.copy(Register::of(6), Register::CONTEXT).set(Register::RESULT, 2).load_map(Register::of(1), 7);
        a.load(Width::Half, Register::of(5), Register::of(2), 12).call(51).exit();
        assert_eq!(
            bytes(&a.finish()),
            [
                [0xbf, 0x16, 0, 0, 0, 0, 0, 0],
                [0xb7, 0, 0, 0, 2, 0, 0, 0],
                [0x18, 0x11, 0, 0, 7, 0, 0, 0],
                [0; 8],
                [0x69, 0x25, 12, 0, 0, 0, 0, 0],
                [0x85, 0, 0, 0, 51, 0, 0, 0],
                [0x95, 0, 0, 0, 0, 0, 0, 0],
            ]
        );
    }

    #[test]
    fn jump_offsets_count_wide_instructions() {
        let mut a = Assembler::default();
        let (end, start) = (a.label(), a.label());
        a.place(start).jump_if_equal(Register::of(3), 9, end).load_map(Register::of(1), 0).jump(start);
        a.place(end).exit();
        let offsets: Vec<_> = a.finish().iter().map(|i| i.offset).collect();
        assert_eq!(offsets, [3, 0, 0, -4, 0]);
    }
}
