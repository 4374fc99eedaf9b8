//! Commits whose answers, or whose requests, are lost on the way: in doubt until they are settled, and no harm done.

#[allow(dead_code, reason = "other tests use the rest")]
mod cluster;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use atonce::Application;
use atonce::client::connector::Connecting;
use atonce::client::{BrokerAddress, Client, Connector, Transport};
use cluster::{Cluster, assert_exact, lines, total};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

const END_TXN: i16 = 26;

/// What becomes of an EndTxn.
const DELIVERED: u8 = 0;
const ANSWER_LOST: u8 = 1;
const REQUEST_LOST: u8 = 2;

/// A network that loses what it is told to.
#[derive(Clone, Default)]
struct LossyConnector {
    loses: Arc<AtomicU8>,
}

impl Connector for LossyConnector {
    fn connect<'a>(&'a self, address: &'a BrokerAddress) -> Connecting<'a> {
        Box::pin(async move {
            let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
            stream.set_nodelay(true)?;
            let (from_broker, to_broker) = stream.into_split();
            let (ours, theirs) = tokio::io::duplex(1 << 20);
            let (from_client, to_client) = tokio::io::split(theirs);
            let lost = Arc::new(Mutex::new(BTreeSet::new()));
            tokio::spawn(requests(from_client, to_broker, Arc::clone(&self.loses), Arc::clone(&lost)));
            tokio::spawn(answers(from_broker, to_client, lost));
            Ok(Box::new(ours) as Box<dyn Transport>)
        })
    }
}

async fn frame(from: &mut (impl AsyncRead + Unpin)) -> std::io::Result<Vec<u8>> {
    let length = from.read_u32().await?;
    let mut frame = vec![0; length as usize];
    from.read_exact(&mut frame).await?;
    Ok(frame)
}

async fn requests(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    loses: Arc<AtomicU8>,
    lost: Arc<Mutex<BTreeSet<[u8; 4]>>>,
) -> std::io::Result<()> {
    loop {
        let frame = frame(&mut from).await?;
        if i16::from_be_bytes([frame[0], frame[1]]) == END_TXN {
            match loses.load(Ordering::SeqCst) {
                ANSWER_LOST => drop(lost.lock().await.insert([frame[4], frame[5], frame[6], frame[7]])),
                REQUEST_LOST => continue,
                _ => {}
            }
        }
        to.write_u32(frame.len() as u32).await?;
        to.write_all(&frame).await?;
    }
}

async fn answers(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    lost: Arc<Mutex<BTreeSet<[u8; 4]>>>,
) -> std::io::Result<()> {
    loop {
        let frame = frame(&mut from).await?;
        if lost.lock().await.remove(&frame[..4]) {
            continue;
        }
        to.write_u32(frame.len() as u32).await?;
        to.write_all(&frame).await?;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_without_an_answer_is_settled_before_anything_else_is_done() {
    let cluster = Cluster::start("doubt").await;
    cluster.create("lines", 2).await;
    cluster.create("word-counts", 2).await;
    let state = tempfile::tempdir().unwrap();
    let network = LossyConnector::default();
    let client = Client::builder(cluster.bootstrap_servers.as_str())
        .connector(Arc::new(network.clone()))
        .request_timeout(Duration::from_millis(1200))
        .connect()
        .await
        .unwrap();
    let running = Application::builder(cluster.name("app"), cluster.word_count())
        .client(client)
        .commit_interval(Duration::from_millis(30))
        .call_timeout(Duration::from_secs(3))
        .state_dir(state.path())
        .start()
        .await
        .unwrap();
    let mut all = Vec::new();
    for (round, loss) in [ANSWER_LOST, REQUEST_LOST, ANSWER_LOST].into_iter().enumerate() {
        let in_doubt = running.statistics().in_doubt;
        network.loses.store(loss, Ordering::SeqCst);
        let lines = lines(round as u64, 300);
        cluster.load(&lines, 2).await;
        all.extend(lines);
        let started = std::time::Instant::now();
        while running.statistics().in_doubt == in_doubt {
            assert!(started.elapsed() < Duration::from_secs(60), "no commit came into doubt");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        network.loses.store(DELIVERED, Ordering::SeqCst);
        assert_exact(&cluster.counts(total(&all)).await, &all);
    }
    assert_eq!(running.statistics().fenced, 0);
    running.close().await.unwrap();
}
