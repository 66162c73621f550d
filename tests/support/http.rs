//! A server that answers as a test wants, one thread a connection, over plain HTTP or TLS.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

/// What was asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    /// With the query.
    pub(crate) path: String,
    pub(crate) headers: Vec<String>,
    pub(crate) body: String,
}

impl Asked {
    /// The value of a header, by its name in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// What is answered: a code, further header lines, a body. A body that ends with no end is cut off by the end of the
/// connection.
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) headers: &'static str,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn new(code: u16, body: impl ToString) -> Self {
        Self { code, headers: "", body: body.to_string() }
    }
}

/// The server; it ends with the tests.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    pub(crate) fn start(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        Self::over(answer, Some)
    }

    /// Over TLS.
    pub(crate) fn secure(
        config: Arc<rustls::ServerConfig>,
        answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::over(answer, move |stream| {
            let connection = rustls::ServerConnection::new(Arc::clone(&config)).ok()?;
            Some(rustls::StreamOwned::new(connection, stream))
        })
    }

    fn over<S: Read + Write>(
        answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
        wrap: impl Fn(std::net::TcpStream) -> Option<S> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (log, answer, wrap) = (Arc::clone(&asked), Arc::new(answer), Arc::new(wrap));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, answer, wrap) = (Arc::clone(&log), Arc::clone(&answer), Arc::clone(&wrap));
                std::thread::spawn(move || wrap(stream).and_then(|stream| serve(stream, &log, &*answer)));
            }
        });
        Self { address, asked }
    }

    /// All that was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// `METHOD path` of the same.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.asked().iter().map(|asked| format!("{} {}", asked.method, asked.path)).collect()
    }
}

fn serve<S: Read + Write>(
    stream: S,
    log: &Mutex<Vec<Asked>>,
    answer: &dyn Fn(&Asked) -> Reply,
) -> Option<()> {
    let mut stream = BufReader::new(stream);
    let asked = read(&mut stream)?;
    log.lock().unwrap().push(asked.clone());
    let Reply { code, headers, body } = answer(&asked);
    let is_watch = asked.path.contains("watch=true");
    let length = if is_watch { String::new() } else { format!("content-length: {}\r\n", body.len()) };
    let head = format!("HTTP/1.1 {code} X\r\n{length}{headers}connection: close\r\n\r\n");
    let stream = stream.get_mut();
    stream.write_all((head + &body).as_bytes()).ok()?;
    stream.flush().ok()
}

fn read<S: Read>(stream: &mut BufReader<S>) -> Option<Asked> {
    let mut line = || {
        let mut line = String::new();
        stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
        Some(line.trim_end().to_owned())
    };
    let first = line()?;
    let headers: Vec<String> = std::iter::from_fn(|| line().filter(|line| !line.is_empty())).collect();
    let mut words = first.split(' ').map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let length = headers.iter().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).ok()?;
    Some(Asked { method, path, headers, body: String::from_utf8(body).ok()? })
}
