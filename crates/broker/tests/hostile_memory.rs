//! What connections cost that send bytes that make no sense: a little memory each, and nobody else anything. Alone in its process, whose memory
//! is what is measured.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

mod raw_client;
use raw_client::{RawClient, broker, plain_batch};

/// Connections of each kind. Both ends are open files of this process, of which a user may have 1024.
const CONNECTIONS: usize = 100;

/// What one may cost. It is some seven on Linux: its task, its channel and a buffer; how an allocator takes pages is not ours.
const KILOBYTES_EACH_MAX: usize = 32;

/// What is announced and never comes.
const ANNOUNCED_BYTES: i32 = 90 << 20;

/// What is sent of things that are none of ours.
const FLOOD_BYTES: usize = 1 << 20;

#[derive(Clone, Copy, Debug)]
enum Hostility {
    /// Connects, and says nothing.
    Silent,
    /// Announces much of an API that there is, and sends a little of it.
    Announces,
    /// Announces much of no API at all, and sends what it can.
    Floods,
    /// Asks for two thousand million topics in four bytes.
    Counts,
}

impl Hostility {
    fn bytes(self) -> Vec<u8> {
        let announced = ANNOUNCED_BYTES.to_be_bytes();
        match self {
            Self::Silent => Vec::new(),
            Self::Announces => [&announced[..], &[0, 0, 0, 9], &[0; 1000]].concat(),
            Self::Floods => [&announced[..], &vec![0x41; FLOOD_BYTES]].concat(),
            Self::Counts => {
                [&[0, 0, 0, 14][..], &[0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]].concat()
            }
        }
    }

    /// Connects and does it. Those that the broker hangs up on have seen that when this returns.
    async fn act(self, address: std::net::SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.expect("connected");
        // The broker may hang up before all of it is sent.
        let _ = stream.write_all(&self.bytes()).await;
        match self {
            Self::Silent | Self::Announces => {}
            Self::Floods | Self::Counts => {
                let end = tokio::time::timeout(Duration::from_secs(60), stream.read(&mut [0; 16])).await;
                assert!(matches!(end.expect("hung up on"), Ok(0) | Err(_)), "{self:?} is answered");
            }
        }
        stream
    }
}

fn resident_kilobytes() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_send_nonsense_cost_a_little_memory_each_and_others_nothing() {
    let broker = broker().await;
    let address = broker.address();
    let mut bystander = RawClient::over(TcpStream::connect(address).await.expect("connected"));
    bystander.create_topic("t", 1).await;
    let kinds = [Hostility::Silent, Hostility::Announces, Hostility::Floods, Hostility::Counts];
    // What is needed once is there after a few of each.
    for kind in kinds {
        for _ in 0..5 {
            drop(kind.act(address).await);
        }
    }
    let before = resident_kilobytes();
    let mut values = Vec::new();
    let mut open = Vec::new();
    for kind in kinds {
        for number in 0..CONNECTIONS {
            open.push(kind.act(address).await);
            if number % 10 == 0 {
                let value = format!("{kind:?} {number}");
                let produced = bystander.produce(9, None, "t", 0, plain_batch(&[&value]));
                let produced =
                    tokio::time::timeout(Duration::from_secs(60), produced).await.expect("others are served");
                assert_eq!((produced.error_code, produced.base_offset), (0, values.len() as i64));
                values.push(value);
            }
        }
    }
    assert_eq!(bystander.read("t", 0, true).await, values);
    let (Some(before), Some(after)) = (before, resident_kilobytes()) else {
        say("memory is not measured: this system has no /proc");
        return;
    };
    let each = after.saturating_sub(before) / open.len();
    say(&format!("{each} kB a connection"));
    assert!(
        each <= KILOBYTES_EACH_MAX,
        "{each} kB a connection: {before} kB before, {after} kB after {} of them",
        open.len()
    );
}

#[expect(clippy::print_stderr, reason = "what is left out is left out aloud")]
fn say(words: &str) {
    eprintln!("{words}");
}
