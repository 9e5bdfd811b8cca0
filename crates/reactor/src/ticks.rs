//! A counter that grows evenly with time and costs next to nothing to read.
//!
//! Always true: its rate is unknown, and constant while the process runs; on processors without such a counter it
//! counts nanoseconds.
//! Not here: what is measured with it.

/// The value of the counter. It may jump when the machine is migrated or has slept.
#[cfg(target_arch = "x86_64")]
pub(crate) fn ticks() -> u64 {
    // Safe because every processor of this architecture has the instruction, which reads a register.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// The value of the counter.
#[cfg(target_arch = "aarch64")]
pub(crate) fn ticks() -> u64 {
    let ticks: u64;
    // Safe because the register can be read by any program on Linux, and nothing else is touched.
    unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
    ticks
}

/// Nanoseconds.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn ticks() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
