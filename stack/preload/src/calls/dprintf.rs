//! Formatted output to descriptors, which the C library writes without a call that can be replaced.
//!
//! Stable Rust cannot define functions with variable arguments. Their entry points are therefore a few instructions
//! that build a `va_list` as the C compiler does (System V ABI for AMD64 section 3.5.7; AAPCS64, appendix B) and pass
//! it on.

use super::stdio::write_all;
use crate::{real, table};
use core::arch::naked_asm;
use libc::{c_char, c_int, c_void};

/// A `va_list` as functions receive it: on both processors the address of a structure.
type VaList = *mut c_void;

unsafe extern "C" {
    fn __vasprintf_chk(
        text: *mut *mut c_char,
        flag: c_int,
        format: *const c_char,
        arguments: VaList,
    ) -> c_int;
}

/// Calls `$to` with the first `$named` arguments and a `va_list` of the others, whose address is in the register
/// `$list`.
///
/// On the stack: the `va_list` (24 bytes, then 8 unused), 6 integer registers, 8 vector registers, 8 bytes for
/// alignment.
#[cfg(target_arch = "x86_64")]
macro_rules! pass_on {
    ($named:literal, $list:literal, $to:path) => {
        naked_asm!(
            ".cfi_startproc",
            "sub rsp, 216",
            ".cfi_def_cfa_offset 224",
            // Those before are named arguments of all these functions.
            "mov [rsp + 48], rdx",
            "mov [rsp + 56], rcx",
            "mov [rsp + 64], r8",
            "mov [rsp + 72], r9",
            "movaps [rsp + 80], xmm0",
            "movaps [rsp + 96], xmm1",
            "movaps [rsp + 112], xmm2",
            "movaps [rsp + 128], xmm3",
            "movaps [rsp + 144], xmm4",
            "movaps [rsp + 160], xmm5",
            "movaps [rsp + 176], xmm6",
            "movaps [rsp + 192], xmm7",
            // Offsets of the next argument among the saved registers: integer, vector.
            "mov dword ptr [rsp], {integer}",
            "mov dword ptr [rsp + 4], 48",
            // Arguments on the stack of the caller, and the saved registers.
            "lea r10, [rsp + 224]",
            "mov [rsp + 8], r10",
            "lea r10, [rsp + 32]",
            "mov [rsp + 16], r10",
            concat!("mov ", $list, ", rsp"),
            "call {to}",
            "add rsp, 216",
            ".cfi_def_cfa_offset 8",
            "ret",
            ".cfi_endproc",
            integer = const $named * 8,
            to = sym $to,
        )
    };
}

/// As on x86-64; the register is numbered by the argument. On the stack: frame pointer and return address, the
/// `va_list` (32 bytes), 8 integer registers, 8 vector registers. Offsets in the list are negative, from the ends of
/// the registers.
#[cfg(target_arch = "aarch64")]
macro_rules! pass_on {
    ($named:literal, $_:literal, $to:path) => {
        naked_asm!(
            ".cfi_startproc",
            "stp x29, x30, [sp, -240]!",
            ".cfi_def_cfa_offset 240",
            ".cfi_offset x29, -240",
            ".cfi_offset x30, -232",
            "mov x29, sp",
            "stp x2, x3, [sp, 64]",
            "stp x4, x5, [sp, 80]",
            "stp x6, x7, [sp, 96]",
            "stp q0, q1, [sp, 112]",
            "stp q2, q3, [sp, 144]",
            "stp q4, q5, [sp, 176]",
            "stp q6, q7, [sp, 208]",
            // Arguments on the stack of the caller, where the vector registers end, and the end of the integer
            // registers.
            "add x9, sp, 240",
            "add x10, sp, 112",
            "stp x9, x10, [sp, 16]",
            "str x9, [sp, 32]",
            "mov w9, {integer}",
            "mov w10, -128",
            "stp w9, w10, [sp, 40]",
            concat!("add x", $named, ", sp, 16"),
            "bl {to}",
            "ldp x29, x30, [sp], 240",
            ".cfi_def_cfa_offset 0",
            "ret",
            ".cfi_endproc",
            integer = const $named * 8 - 64,
            to = sym $to,
        )
    };
}

/// # Safety
/// As in the C library, where it has variable arguments.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dprintf(fd: c_int, format: *const c_char) -> c_int {
    pass_on!(2, "rdx", vdprintf);
}

/// The checked variant of `_FORTIFY_SOURCE`.
///
/// # Safety
/// As in the C library, where it has variable arguments.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __dprintf_chk(fd: c_int, flag: c_int, format: *const c_char) -> c_int {
    pass_on!(3, "rcx", __vdprintf_chk);
}

/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vdprintf(fd: c_int, format: *const c_char, arguments: VaList) -> c_int {
    // SAFETY: the program's arguments; without a flag nothing is checked.
    unsafe { __vdprintf_chk(fd, 0, format, arguments) }
}

/// The checked variant of `_FORTIFY_SOURCE`.
///
/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __vdprintf_chk(
    fd: c_int,
    flag: c_int,
    format: *const c_char,
    arguments: VaList,
) -> c_int {
    if table::find(fd).is_none() {
        // SAFETY: the program's arguments.
        return unsafe { real::__vdprintf_chk(fd, flag, format, arguments) };
    }
    let mut text = std::ptr::null_mut();
    // SAFETY: the program's arguments. If there is a length, the C library has allocated as many bytes.
    unsafe {
        let len = __vasprintf_chk(&raw mut text, flag, format, arguments);
        let Ok(all) = usize::try_from(len) else { return -1 };
        let done = write_all(fd, text, all);
        libc::free(text.cast());
        if done == all { len } else { -1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::os::fd::AsRawFd as _;

    /// Calls a function with more arguments of each kind than there are registers, and reads the text.
    macro_rules! printed {
        ($function:ident as $kind:ty, $($named:expr),*) => {{
            let (mut read, write) = std::io::pipe().unwrap();
            let format = c"%s %d %d %d %d %d %d %g %g %g %g %g %g %g %g %g %s";
            // SAFETY: the type of the C library; the arguments are those of the format.
            let len = unsafe {
                let function = std::mem::transmute::<*const (), $kind>($function as *const ());
                function(
                    write.as_raw_fd(), $($named,)* format.as_ptr(), c"first".as_ptr(), 1, 2, 3, 4, 5, 6,
                    0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, c"last".as_ptr()
                )
            };
            drop(write);
            let mut text = String::new();
            assert_eq!(read.read_to_string(&mut text).unwrap(), len as usize);
            text
        }};
    }

    #[test]
    fn arguments_in_registers_and_on_the_stack_are_printed() {
        let expected = "first 1 2 3 4 5 6 0.5 1.5 2.5 3.5 4.5 5.5 6.5 7.5 8.5 last";
        let plain = printed!(dprintf as unsafe extern "C" fn(c_int, *const c_char, ...) -> c_int,);
        let checked =
            printed!(__dprintf_chk as unsafe extern "C" fn(c_int, c_int, *const c_char, ...) -> c_int, 1);
        assert_eq!([plain.as_str(), &checked], [expected; 2]);
    }
}
