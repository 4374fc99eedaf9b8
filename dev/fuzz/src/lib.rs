//! What must hold for any bytes, one function per target. `fuzz_targets/` hands them to the fuzzer; a test of the broker's crate
//! (`fuzz_corpus.rs`) replays the corpus through them, and neighbours of it, with a stable compiler.
//!
//! **What it does not know**: where the bytes come from. A target panics where something is wrong, and that is all.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use atonce_broker::Broker;
use atonce_client::assignor::{Assignor, MemberSubscription, StickyAssignor};
use atonce_client_core::subscription;
use atonce_coordinator::group;
use atonce_coordinator::transaction;
use atonce_kernel::disk::{Disk, DiskFile};
use atonce_kernel::{
    MemberId, Outcome, ProducerEpoch, ProducerId, ProducerIdentity, Sequence, Timestamp, TopicName, TopicPartition,
    Uuid,
};
use atonce_log::{
    Durability, IsolationLevel, Marker, Origin, Storage, StorageConfig, TransactionVersion, Verification, dump,
};
use atonce_protocol::records::{
    BATCH_HEADER_BYTES, BatchBuilder, BatchOptions, BatchView, Compression, ProducedRules, batches as batches_of,
    read_marker, recompress, renumber, set_log_append_time, validate_produced,
};
use atonce_protocol::{AnyRequest, AnyResponse, ApiKey, Reader, frame};
use atonce_streams_core::store::StorePosition;
use atonce_streams_core::{Wire, assignment};
use atonce_testkit::disk::FaultyDisk;
use bytes::{Bytes, BytesMut};

/// Takes any bytes, and panics if something is wrong.
pub type Target = fn(&[u8]);

/// Name and function of each target; the name is that of its folder in `corpus/` too.
pub const TARGETS: [(&str, Target); 7] = [
    ("messages", messages),
    ("batches", batches),
    ("clients", clients),
    ("configuration", configuration),
    ("coordinator_records", coordinator_records),
    ("files", files),
    ("data_folder", data_folder),
];

/// Unpacked batches never outgrow this.
const LIMIT: usize = 1 << 20;

/// Any bytes as any message: the first byte says which API, the second which version, the third request, response or header. What can
/// be read can be written, and is then a fixed point.
pub fn messages(data: &[u8]) {
    let Some((&[api, version, kind], body)) = data.split_first_chunk::<3>() else { return };
    let Some(key) = ApiKey::from_i16(i16::from(api)) else { return };
    let version = i16::from(version);
    if !key.versions().contains(&version) {
        return;
    }
    let mut reader = Reader::new(Bytes::copy_from_slice(body));
    match kind % 4 {
        0 => {
            let Ok(message) = AnyRequest::decode(key, &mut reader, version) else { return };
            let mut again = BytesMut::new();
            message.encode(&mut again, version).expect("what was read can be written");
            let back = AnyRequest::decode(key, &mut Reader::new(again.freeze()), version);
            assert_eq!(back.expect("what was written can be read"), message);
        }
        1 => {
            let Ok(message) = AnyResponse::decode(key, &mut reader, version) else { return };
            let mut again = BytesMut::new();
            message.encode(&mut again, version).expect("what was read can be written");
            let back = AnyResponse::decode(key, &mut Reader::new(again.freeze()), version);
            assert_eq!(back.expect("what was written can be read"), message);
        }
        2 => drop(frame::decode_request_header(&mut reader)),
        _ => {
            drop(frame::correlation_id_of(body));
            drop(frame::decode_response_header(&mut reader, key, version));
            frames(body);
        }
    }
}

/// A stream of frames gives the same ones however it comes, and none is longer than allowed.
fn frames(stream: &[u8]) {
    const FRAME_BYTES_MAX: usize = 100;
    let splitter = frame::FrameSplitter::new(FRAME_BYTES_MAX);
    let cut = |piece_bytes: usize| {
        let (mut received, mut frames) = (BytesMut::new(), Vec::new());
        for piece in stream.chunks(piece_bytes) {
            received.extend_from_slice(piece);
            loop {
                match splitter.next_frame(&mut received) {
                    Ok(Some(frame)) => frames.push(frame),
                    Ok(None) => break,
                    Err(_) => return frames,
                }
            }
        }
        frames
    };
    let whole = cut(stream.len().max(1));
    assert!(whole.iter().all(|frame| frame.len() <= FRAME_BYTES_MAX));
    assert_eq!(whole, cut(1), "a stream that comes byte by byte");
}

/// Any bytes as record batches. The first byte says whether length, format and checksum are set right before, so that the search
/// reaches codecs and records; what comes out never outgrows the limit.
pub fn batches(data: &[u8]) {
    let Some((&mode, body)) = data.split_first() else { return };
    let mut bytes = body.to_vec();
    if mode % 4 != 0 && bytes.len() >= BATCH_HEADER_BYTES {
        let length = i32::try_from(bytes.len() - 12).expect("short");
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        bytes[16] = 2;
        // Renews the checksum too.
        set_log_append_time(&mut bytes, 1);
        BatchView::new(&bytes).expect("the head is right").validate().err();
    }
    for batch in batches_of(&bytes) {
        let Ok(batch) = batch else { continue };
        let is_whole = batch.validate().is_ok();
        let Ok(payload) = batch.decompress(LIMIT) else { continue };
        assert!(payload.len() <= LIMIT);
        let codecs = [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
        let codec = codecs[usize::from(mode >> 3) % codecs.len()];
        if let Ok(packed) = recompress(&batch, codec, LIMIT) {
            let packed = BatchView::new(&packed).expect("a batch packed anew is one");
            if is_whole {
                packed.validate().expect("and whole, if it was");
            }
            assert_eq!(packed.decompress(LIMIT).expect("as it was packed"), payload);
        }
        for record in batch.records_in(&payload).flatten() {
            let _ = read_marker(&record);
            record.headers().for_each(|it| drop(it.key_text()));
        }
    }
    let rules = ProducedRules { requires_keys: mode & 4 != 0, decompressed_bytes_max: LIMIT };
    if let Ok(produced) = validate_produced(&bytes, rules)
        && let Ok(numbered) = renumber(&produced.batch, LIMIT)
    {
        let again = validate_produced(&numbered, rules).expect("numbered anew it may be written as before");
        assert!(again.is_numbered);
        assert_eq!(again.batch.records_count(), produced.batch.records_count());
    }
}

/// Any bytes as what clients and streams read besides messages: what members of a group tell each other, and what stands in a store, a change
/// log or beside an offset. The first byte says which. What can be read and written is a fixed point.
pub fn clients(data: &[u8]) {
    let Some((&kind, body)) = data.split_first() else { return };
    let bytes = Bytes::copy_from_slice(body);
    match kind % 8 {
        0 => {
            let Ok(read) = subscription::decode_subscription(&bytes) else { return };
            let again = subscription::encode_subscription(&read).expect("what was read can be written");
            assert_eq!(subscription::decode_subscription(&again).expect("what was written can be read"), read);
        }
        1 => {
            let Ok((partitions, userdata)) = subscription::decode_assignment(&bytes) else { return };
            let again = subscription::encode_assignment(&partitions, &userdata).expect("what was read can be written");
            let again = subscription::decode_assignment(&again).expect("what was written can be read");
            assert_eq!(again, (partitions, userdata));
        }
        2 => {
            let member = |id: &str, userdata| MemberSubscription {
                member_id: MemberId::from(id),
                instance_id: None,
                topics: vec![TopicName::from("x")],
                userdata,
                owned: Vec::new(),
                generation_id: -1,
                rack_id: None,
            };
            let members = [member("a", bytes), member("b", Bytes::new())];
            let assigned = StickyAssignor.assign(&BTreeMap::from([(TopicName::from("x"), 3)]), &members);
            let mut partitions: Vec<_> = assigned.into_iter().flat_map(|member| member.partitions).collect();
            partitions.sort();
            assert_eq!(partitions, [0, 1, 2].map(|index| TopicPartition::new("x", index)), "each partition once");
        }
        3 => {
            let Ok(read) = assignment::Subscription::decode(body) else { return };
            let again = assignment::Subscription::decode(&read.encode()).expect("what was written can be read");
            assert_eq!(again, read);
        }
        4 => {
            let Ok(read) = assignment::Instruction::decode(body) else { return };
            let again = assignment::Instruction::decode(&read.encode()).expect("what was written can be read");
            assert_eq!(again, read);
        }
        5 => {
            let Some(read) = StorePosition::decode(body) else { return };
            assert_eq!(StorePosition::decode(&read.encode()), Some(read));
        }
        6 => {
            stands_for_itself::<String>(body);
            stands_for_itself::<i64>(body);
            stands_for_itself::<u32>(body);
            stands_for_itself::<Option<String>>(body);
        }
        // What is not a number is not equal to itself.
        _ => drop(f64::decode(Some(body))),
    }
}

fn stands_for_itself<T: Wire + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    if let Ok(value) = T::decode(Some(bytes)) {
        assert_eq!(T::decode(value.encode().as_deref()).expect("what was written can be read"), value);
    }
}

/// Any text as a configuration file: it is taken, or refused with the line that is wrong.
pub fn configuration(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Err(error) = Broker::builder().configuration(text) {
        assert!(!error.to_string().is_empty());
    }
}

/// Any bytes as key and value of a coordinator's record: the first byte says whose and whether there is a value, the second how long the
/// key is. What can be read can be written, and is then a fixed point.
pub fn coordinator_records(data: &[u8]) {
    let Some((&[mode, key_bytes], body)) = data.split_first_chunk::<2>() else { return };
    let (key, value) = body.split_at(usize::from(key_bytes).min(body.len()));
    let value = (mode & 2 == 0).then(|| Bytes::copy_from_slice(value));
    let key = Bytes::copy_from_slice(key);
    if mode & 1 == 0 {
        let Ok(record) = transaction::Record::decode(key, value) else { return };
        let (key, value) = record.encode().expect("what was read can be written");
        assert_eq!(transaction::Record::decode(key, value).expect("what was written can be read"), record);
    } else {
        let Ok(Some(record)) = group::Record::decode(key, value) else { return };
        let (key, value) = record.encode().expect("what was read can be written");
        assert_eq!(group::Record::decode(key, value).expect("what was written can be read").expect("ours"), record);
    }
}

/// Any bytes as a file beside a segment, or as the segment, as the commands that look into folders read them.
pub fn files(data: &[u8]) {
    let Some((&kind, body)) = data.split_first() else { return };
    match kind % 3 {
        0 => drop(dump::log_lines(body, dump::Detail::Records)),
        1 => drop(dump::transaction_index(body)),
        _ => drop(dump::producer_snapshot(body)),
    }
}

/// A small data folder with damage, as a broker that starts finds it. It opens, or says why not; what opens can be read.
///
/// Each four bytes are one change: which file (the highest bit: mend the checksums of journal and checkpoint afterwards, so that the
/// search reaches what stands behind them), where (two bytes), and the new byte. A place behind the end cuts the file there instead.
pub fn data_folder(data: &[u8]) {
    let template = template();
    let mut files: Vec<(PathBuf, Vec<u8>)> = template.clone().into_iter().collect();
    let mut mend = false;
    for change in data.as_chunks::<4>().0.iter().take(64) {
        let [file, high, low, byte] = *change;
        mend |= file & 0x80 != 0;
        let count = files.len();
        let content = &mut files[usize::from(file & 0x7f) % count].1;
        // Journal files are mostly zeros: places are spread over the first part, where the groups are.
        let place = usize::from(u16::from_be_bytes([high, low]));
        match content.get_mut(place) {
            Some(at) => *at = byte,
            None => content.truncate(content.len() * usize::from(byte) / 256),
        }
    }
    if mend {
        for (path, content) in &mut files {
            mend_checksums(path, content);
        }
    }
    let disk = FaultyDisk::new();
    for (path, content) in &files {
        let folder = path.parent().expect("files stand in folders");
        disk.create_directories(folder).expect("it is empty");
        let file = disk.open_or_create(path).expect("it is empty");
        file.write_at(content, 0).expect("there is room");
    }
    let _ = atonce_log::check::check(&disk, Path::new("/data"), config().journal_file_bytes);
    let opened = Storage::open(disk.clone(), config()).or_else(|_| {
        // What cannot be opened may be salvaged, and then opens.
        Storage::open(disk, StorageConfig { salvage: true, ..config() })
    });
    let Ok((storage, _)) = opened else { return };
    let topics: Vec<(TopicName, i32)> =
        storage.catalog().topics().map(|topic| (topic.name.clone(), topic.partitions)).collect();
    for (name, partitions) in topics {
        for index in 0..partitions.min(4) {
            let partition = TopicPartition::new(name.as_str(), index);
            let Some(reader) = storage.reader(&partition) else { continue };
            let _ = reader.offset_of_max_timestamp(IsolationLevel::ReadUncommitted);
            for timestamp in [0, 1_000_000, i64::MAX] {
                let _ = reader.offset_for_timestamp(Timestamp(timestamp), IsolationLevel::ReadCommitted);
            }
            for isolation in [IsolationLevel::ReadUncommitted, IsolationLevel::ReadCommitted] {
                let mut next = reader.watermarks().log_start_offset;
                // Each read makes progress, or is the last.
                while let Ok(read) = reader.read(next, 4000, isolation) {
                    let Some(last) = read.batches.last() else { break };
                    let Ok(last) = BatchView::new(last) else { break };
                    assert!(last.next_offset() > next, "{partition}: a read makes no progress at {next}");
                    next = last.next_offset();
                }
            }
        }
    }
    let _ = storage.close();
}

fn config() -> StorageConfig {
    let mut config = StorageConfig::new("/data");
    config.durability = Durability::Sync;
    config.journal_file_bytes = 32 << 10;
    config.journal_files_max = 2;
    config.reserve_bytes = 4 << 10;
    config
}

/// The files of a folder with two topics, an open, a committed and an aborted transaction, a checkpoint and what came after it.
fn template() -> &'static BTreeMap<PathBuf, Vec<u8>> {
    static TEMPLATE: OnceLock<BTreeMap<PathBuf, Vec<u8>>> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let disk = FaultyDisk::new();
        write_template(&disk);
        let mut files = BTreeMap::new();
        collect(&disk, Path::new("/data"), &mut files);
        assert!(files.len() >= 4, "journal, checkpoint and segments: {:?}", files.keys());
        files
    })
}

fn write_template(disk: &FaultyDisk) {
    let now = Timestamp(1_000_000);
    let (mut storage, _) = Storage::open(disk.clone(), config()).expect("it is empty");
    for (number, name) in [(1, "plain"), (2, "transactional")] {
        storage.create_topic(&TopicName::from(name), Uuid([number; 16]), 2, BTreeMap::new()).expect("it is new");
    }
    let plain = TopicPartition::new("plain", 0);
    let transactional = TopicPartition::new("transactional", 1);
    let batch = |producer, sequence, is_transactional| {
        let mut builder = BatchBuilder::with_capacity(256);
        builder.append(now.0, Some(b"key"), Some(b"value"), []).expect("small");
        let options =
            BatchOptions { producer, base_sequence: Sequence(sequence), is_transactional, ..BatchOptions::default() };
        builder.finish(&options).expect("small")
    };
    for step in 0..3_i64 {
        let producer = ProducerIdentity { id: ProducerId(100 + step), epoch: ProducerEpoch(0) };
        storage.append(&plain, &batch(ProducerIdentity::NONE, -1, false), Origin::CLIENT, now).expect("appended");
        let verification =
            storage.start_verification(&transactional, producer, Sequence(0), TransactionVersion::V2, now);
        let guard = match verification.expect("it may begin") {
            Verification::NotNeeded => None,
            Verification::Needed(guard) => Some(guard),
        };
        storage.append(&transactional, &batch(producer, 0, true), Origin::Client { guard }, now).expect("appended");
        if step < 2 {
            let outcome = if step == 0 { Outcome::Commit } else { Outcome::Abort };
            let producer = ProducerIdentity { epoch: ProducerEpoch(1), ..producer };
            let marker = Marker { producer, outcome, coordinator_epoch: 0, version: TransactionVersion::V2 };
            storage.append_marker(&transactional, &marker, now).expect("appended");
        }
        storage.commit().expect("the disk is well");
        if step == 1 {
            storage.checkpoint().expect("the disk is well");
        }
    }
}

fn collect(disk: &FaultyDisk, folder: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for name in disk.list(folder).expect("it is there") {
        let path = folder.join(&name);
        match disk.bytes(&path) {
            Ok(content) => {
                files.insert(path, content);
            }
            Err(_) => collect(disk, &path, files),
        }
    }
}

/// Writes the right checksums into a journal file (blocks of 4 KiB, a header of 48 bytes) or a checkpoint, as far as lengths allow.
fn mend_checksums(path: &Path, content: &mut [u8]) {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if name == "checkpoint" {
        let Some((head, body)) = content.split_at_mut_checked(12) else { return };
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&head[7..8]), body);
        head[8..12].copy_from_slice(&checksum.to_be_bytes());
    } else if name.ends_with(".journal") {
        let (mut start, mut previous) = (0, None);
        while let Some(group) = content.get_mut(start..).filter(|group| group.len() >= 48 && group[..8] == *b"atonceJ1")
        {
            if let Some(previous) = previous {
                group[32..36].copy_from_slice(&u32::to_be_bytes(previous));
            }
            let length = u32::from_be_bytes([group[36], group[37], group[38], group[39]]);
            let Some(payload) = usize::try_from(length).ok().and_then(|length| group.get(48..48 + length)) else {
                return;
            };
            let checksum = crc32c::crc32c_append(crc32c::crc32c(&group[..44]), payload);
            let group_bytes = 48 + payload.len();
            group[44..48].copy_from_slice(&checksum.to_be_bytes());
            previous = Some(checksum);
            start += group_bytes.next_multiple_of(4096);
        }
    }
}
