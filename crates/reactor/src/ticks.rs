//! A counter that grows evenly with time and costs next to nothing to read.
//!
//! Always true: how fast it grows is unknown, and the same while the process runs; on processors that have none it counts
//! nanoseconds.
//! Not here: what is measured with it.

/// What the counter says. It may stand elsewhere after the machine was moved or has slept.
#[cfg(target_arch = "x86_64")]
pub(crate) fn ticks() -> u64 {
    // Safe because every processor of this architecture has the instruction, which reads a register.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// What the counter says.
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
