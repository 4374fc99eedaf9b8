//! Takes the facts of the protocol (names, types, versions, tags, defaults) out of the schemas that Apache
//! Kafka's jars carry, and prints them as our declarations. Sentences are left behind. Run once per
//! version of Kafka; the result is committed, so that nothing else needs a jar.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::schema::{Declaration, Field, Kind, Message, Struct, Type, Versions, print, snake_case};

/// The APIs we speak.
const APIS: &[&str] = &[
    "Produce",
    "Fetch",
    "ListOffsets",
    "Metadata",
    "OffsetCommit",
    "OffsetFetch",
    "FindCoordinator",
    "JoinGroup",
    "Heartbeat",
    "LeaveGroup",
    "SyncGroup",
    "DescribeGroups",
    "ListGroups",
    "SaslHandshake",
    "ApiVersions",
    "CreateTopics",
    "DeleteTopics",
    "DeleteRecords",
    "InitProducerId",
    "OffsetForLeaderEpoch",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "EndTxn",
    "WriteTxnMarkers",
    "TxnOffsetCommit",
    "DescribeAcls",
    "CreateAcls",
    "DeleteAcls",
    "DescribeConfigs",
    "AlterConfigs",
    "DescribeLogDirs",
    "SaslAuthenticate",
    "CreatePartitions",
    "DeleteGroups",
    "ElectLeaders",
    "IncrementalAlterConfigs",
    "AlterPartitionReassignments",
    "ListPartitionReassignments",
    "OffsetDelete",
    "DescribeQuorum",
    "UpdateFeatures",
    "DescribeCluster",
    "DescribeProducers",
    "DescribeTransactions",
    "ListTransactions",
    "ConsumerGroupHeartbeat",
    "ConsumerGroupDescribe",
    "ListConfigResources",
    "DescribeTopicPartitions",
    "StreamsGroupHeartbeat",
    "StreamsGroupDescribe",
];

/// The messages without a key: embedded in others, in the coordinators' logs, in marker records.
const MESSAGES: &[&str] = &[
    "ConsumerProtocolSubscription",
    "ConsumerProtocolAssignment",
    "ControlRecordTypeSchema",
    "EndTxnMarker",
    "OffsetCommitKey",
    "OffsetCommitValue",
    "GroupMetadataKey",
    "GroupMetadataValue",
    "ConsumerGroupMetadataKey",
    "ConsumerGroupMetadataValue",
    "ConsumerGroupMemberMetadataKey",
    "ConsumerGroupMemberMetadataValue",
    "ConsumerGroupTargetAssignmentMetadataKey",
    "ConsumerGroupTargetAssignmentMetadataValue",
    "ConsumerGroupTargetAssignmentMemberKey",
    "ConsumerGroupTargetAssignmentMemberValue",
    "ConsumerGroupCurrentMemberAssignmentKey",
    "ConsumerGroupCurrentMemberAssignmentValue",
    "ConsumerGroupRegularExpressionKey",
    "ConsumerGroupRegularExpressionValue",
    "TransactionLogKey",
    "TransactionLogValue",
];

/// The chore: writes the declarations of `crates/protocol` from the schemas in `jars`.
pub fn run(jars: &[&str]) -> Result<()> {
    let jars: Vec<PathBuf> = jars.iter().map(PathBuf::from).collect();
    import_schemas(&jars, &crate::generate::protocol_crate().join("declarations"))
}

/// Reads the schemas in `jars` and writes a file for each API and message into `declarations`.
pub fn import_schemas(jars: &[PathBuf], declarations: &Path) -> Result<()> {
    let mut schemas = BTreeMap::new();
    for jar in jars {
        read_jar(jar, &mut schemas)?;
    }
    let message = |name: String| -> Result<Message> {
        let schema = schemas.get(&name).with_context(|| format!("{name}: in none of the jars"))?;
        import_message(schema).with_context(|| name)
    };
    fs::create_dir_all(declarations)?;
    for name in APIS {
        let request = message(format!("{name}Request"))?;
        let response = message(format!("{name}Response"))?;
        let key = schemas[&request.name]["apiKey"].as_i64().context("no apiKey")?;
        let key = i16::try_from(key)?;
        write(declarations, &Declaration::Api { key, name: (*name).to_owned(), request, response })?;
    }
    for name in MESSAGES {
        write(declarations, &Declaration::Message(message((*name).to_owned())?))?;
    }
    Ok(())
}

fn write(declarations: &Path, declaration: &Declaration) -> Result<()> {
    fs::write(declarations.join(format!("{}.api", snake_case(declaration.name()))), print(declaration))?;
    Ok(())
}

/// All schemas of a jar, by name. They are JSON with comment lines, one behind the other as `unzip` prints them.
fn read_jar(jar: &Path, schemas: &mut BTreeMap<String, Value>) -> Result<()> {
    let output = Command::new("unzip").arg("-p").arg(jar).arg("common/message/*.json").output().context("unzip")?;
    ensure!(output.status.success(), "{}: unzip failed", jar.display());
    let text = String::from_utf8(output.stdout)?;
    let json: Vec<&str> = text.lines().map(without_comment).collect();
    for schema in serde_json::Deserializer::from_str(&json.join("\n")).into_iter::<Value>() {
        let schema = schema.with_context(|| jar.display().to_string())?;
        let name = text_of(&schema, "name")?.to_owned();
        schemas.insert(name, schema);
    }
    Ok(())
}

/// The line up to `//`, unless that stands in a string.
fn without_comment(line: &str) -> &str {
    let mut in_string = false;
    for (at, letter) in line.char_indices() {
        match letter {
            '"' => in_string = !in_string,
            '/' if !in_string && line[at..].starts_with("//") => return &line[..at],
            _ => {}
        }
    }
    line
}

fn import_message(schema: &Value) -> Result<Message> {
    let name = text_of(schema, "name")?.to_owned();
    let kind = match text_of(schema, "type")? {
        "request" => Kind::Request,
        "response" => Kind::Response,
        _ => Kind::Data,
    };
    let mut message = Message {
        name: name.clone(),
        kind,
        versions: Versions::parse(text_of(schema, "validVersions")?)?,
        flexible: Versions::parse(text_of(schema, "flexibleVersions")?)?,
        last_version_is_unstable: schema["latestVersionUnstable"].as_bool().unwrap_or(false),
        structs: Vec::new(),
    };
    import_struct(&name, schema, &mut message)?;
    for shared in schema["commonStructs"].as_array().into_iter().flatten() {
        import_struct(text_of(shared, "name")?, shared, &mut message)?;
    }
    Ok(message)
}

fn import_struct(name: &str, schema: &Value, message: &mut Message) -> Result<()> {
    let at = message.structs.len();
    message.structs.push(Struct { name: name.to_owned(), fields: Vec::new() });
    for field in schema["fields"].as_array().context("no fields")? {
        let imported = import_field(field)?;
        if let Some(inner) = imported.kind.struct_name()
            && field["fields"].is_array()
        {
            import_struct(inner, field, message)?;
        }
        message.structs[at].fields.push(imported);
    }
    Ok(())
}

fn import_field(field: &Value) -> Result<Field> {
    let tagged = field["taggedVersions"].as_str().map(Versions::parse).transpose()?;
    let tag = match (field["tag"].as_u64(), tagged) {
        (Some(tag), Some(versions)) => Some((u32::try_from(tag)?, versions)),
        _ => None,
    };
    let versions = match field["versions"].as_str() {
        Some(versions) => Versions::parse(versions)?,
        None => tagged.context("no versions")?,
    };
    let default = match &field["default"] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    Ok(Field {
        name: text_of(field, "name")?.to_owned(),
        kind: Type::parse(text_of(field, "type")?),
        versions,
        nullable: field["nullableVersions"].as_str().map_or(Ok(Versions::NONE), Versions::parse)?,
        tag,
        default: (!matches!(default.as_str(), "" | "0" | "false")).then_some(default),
        ignorable: field["ignorable"].as_bool().unwrap_or(false),
    })
}

fn text_of<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value[key].as_str().with_context(|| format!("no {key} in {value}"))
}
