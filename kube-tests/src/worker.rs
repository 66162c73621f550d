//! Work on a thread of its own that ends when it is dropped.

use anyhow::Result;
use tokio::sync::oneshot;

pub(crate) struct Worker {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Worker {
    pub(crate) fn start(work: impl Future<Output = ()> + Send + 'static) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let until_stopped = move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = work => {}
                }
            });
        };
        Ok(Self { stop: Some(stop), thread: Some(std::thread::spawn(until_stopped)) })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
