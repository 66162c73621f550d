//! What systemd is told about our unit: the `sd_notify` protocol.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The socket systemd listens on, if it started us.
#[derive(Debug, Clone, Default)]
pub struct Notifier {
    socket: Option<SocketAddr>,
}

impl Notifier {
    /// As `NOTIFY_SOCKET` says. Not set: every method does nothing.
    ///
    /// # Errors
    /// An [`io::Error`] if the variable holds no socket address.
    pub fn from_environment() -> io::Result<Self> {
        match std::env::var_os("NOTIFY_SOCKET") {
            Some(name) => Self::to(&name),
            None => Ok(Self::default()),
        }
    }

    /// To this socket: a path, or `@name` for one in the abstract name space.
    ///
    /// # Errors
    /// An [`io::Error`] if it is no socket address.
    pub fn to(name: &OsStr) -> io::Result<Self> {
        let socket = match name.as_bytes().strip_prefix(b"@") {
            Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name)?,
            None => SocketAddr::from_pathname(name)?,
        };
        Ok(Self { socket: Some(socket) })
    }

    /// The line that `systemctl status` shows.
    ///
    /// # Errors
    /// An [`io::Error`] if it cannot be sent; never a reason to stop.
    pub fn status(&self, text: &str) -> io::Result<()> {
        // A line break would begin another assignment.
        self.send(&format!("STATUS={}\n", text.replace('\n', " ")))
    }

    /// Start-up is over.
    ///
    /// # Errors
    /// As [`Notifier::status`].
    pub fn ready(&self) -> io::Result<()> {
        self.send("READY=1\n")
    }

    fn send(&self, message: &str) -> io::Result<()> {
        let Some(socket) = &self.socket else { return Ok(()) };
        let datagram = UnixDatagram::unbound()?;
        // Rather lose a status line than hang with a full queue.
        datagram.set_nonblocking(true)?;
        datagram.send_to_addr(message.as_bytes(), socket).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 256];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    #[test]
    fn a_path_and_an_abstract_name_are_reached() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let name = format!("cgroup2-migrate-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let by_path = (UnixDatagram::bind(&path).unwrap(), path.into_os_string());
        let by_name = (UnixDatagram::bind_addr(&address).unwrap(), format!("@{name}").into());
        for (socket, name) in [by_path, by_name] {
            let notifier = Notifier::to(&name).unwrap();
            notifier.status("two\nlines").unwrap();
            notifier.ready().unwrap();
            assert_eq!([received(&socket), received(&socket)], ["STATUS=two lines\n", "READY=1\n"]);
        }
    }

    #[test]
    fn without_systemd_nothing_is_said() {
        Notifier::default().ready().unwrap();
    }
}
