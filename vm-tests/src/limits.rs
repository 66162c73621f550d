//! How long things may take. Every limit is scaled by `VM_SLOW` (default 1), for machines slower than most.

use std::time::Duration;

/// Power on until sshd greets and a command runs.
pub(crate) fn boot() -> Duration {
    scaled(300)
}

/// One command in the guest that does little.
pub(crate) fn command() -> Duration {
    scaled(90)
}

/// One command in the guest that writes the boot configuration anew, which runs a few hundred processes.
pub(crate) fn long_command() -> Duration {
    scaled(300)
}

/// A reboot asked for until the guest answers with a new boot id: going down, firmware, GRUB, the way up.
pub(crate) fn reboot() -> Duration {
    scaled(420)
}

/// An answer to the first bytes on a connection that QEMU has accepted for the guest.
pub(crate) fn greeting() -> Duration {
    scaled(5)
}

/// How long a machine must stay up for us to say that nothing is about to reboot it.
pub(crate) fn stillness() -> Duration {
    scaled(20)
}

/// A guest kernel's first words, when deciding whether KVM really works.
pub(crate) fn kvm_probe() -> Duration {
    scaled(10)
}

fn scaled(seconds: u64) -> Duration {
    Duration::from_secs(seconds).mul_f64(slowness())
}

fn slowness() -> f64 {
    std::env::var("VM_SLOW")
        .ok()
        .and_then(|factor| factor.parse().ok())
        .filter(|factor| *factor > 0.0)
        .unwrap_or(1.0)
}
