//! GRUB with `/etc/default/grub` and a generated `grub.cfg`.

pub mod defaults;
pub mod env;
pub mod generated;
pub mod menu;
pub mod shell;
mod words;
