//! GRUB with `/etc/default/grub` and a generated `grub.cfg`.

pub mod defaults;
pub mod shell;
mod words;
