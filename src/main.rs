//! The command `cgroup2-migrate`.

fn main() {}
