//! What is made of all declarations together: the list of modules, the enums over all requests and
//! responses, and the table of API keys.

use std::fmt::Write as _;

use crate::schema::{Declaration, Message, snake_case};

struct Api<'a> {
    key: i16,
    name: &'a str,
    request: &'a Message,
}

fn apis(declarations: &[Declaration]) -> Vec<Api<'_>> {
    declarations
        .iter()
        .filter_map(|it| match it {
            Declaration::Api { key, name, request, .. } => Some(Api { key: *key, name, request }),
            Declaration::Message(_) => None,
        })
        .collect()
}

/// The text of `messages/mod.rs`.
pub(super) fn messages(declarations: &[Declaration]) -> String {
    let mut out = String::new();
    out.push_str(
        "//! The messages of the protocol: one module each, named like Kafka's schema.\n//!\n\
         //! Written by `cargo xtask generate` from `declarations`: change it there.\n//!\n\
         //! **What it does not know**: what a message means, and who may send it.\n\n\
         #![allow(clippy::field_reassign_with_default, reason = \"read in the order of the wire, some fields on \
         condition\")]\n\n",
    );
    let mut names: Vec<String> =
        declarations.iter().flat_map(Declaration::messages).map(|it| snake_case(&it.name)).collect();
    names.sort();
    for name in names {
        line(&mut out, &format!("pub mod {name};"));
    }
    out.push_str("\nuse bytes::BytesMut;\n\nuse crate::ApiKey;\n");
    out.push_str("use crate::wire::{DecodeError, EncodeError, Message, Reader, Request};\n\n");
    let apis = apis(declarations);
    for api in &apis {
        let (module, name) = (snake_case(api.name), api.name);
        line(&mut out, &format!("impl Request for {module}_request::{name}Request {{"));
        line(&mut out, &format!("const KEY: ApiKey = ApiKey::{name};"));
        line(&mut out, &format!("type Response = {module}_response::{name}Response;\n}}\n"));
    }
    any("Request", "Any request: for dispatch by key.", &apis, &mut out);
    any("Response", "Any response: its key is that of the request, which the bytes do not say.", &apis, &mut out);
    out
}

fn any(suffix: &str, doc: &str, apis: &[Api<'_>], out: &mut String) {
    line(out, &format!("/// {doc}"));
    line(out, "#[derive(Clone, Debug, PartialEq)]");
    line(out, "#[allow(clippy::large_enum_variant, reason = \"one at a time is decoded, and taken apart at once\")]");
    line(out, &format!("pub enum Any{suffix} {{"));
    for api in apis {
        line(out, &format!("/// Key {}.", api.key));
        line(out, &format!("{0}({1}_{2}::{0}{suffix}),", api.name, snake_case(api.name), suffix.to_lowercase()));
    }
    line(out, "}\n");
    line(out, &format!("impl Any{suffix} {{"));
    line(out, "/// Its API.\n#[must_use]\npub fn key(&self) -> ApiKey { match self {");
    for api in apis {
        line(out, &format!("Self::{0}(_) => ApiKey::{0},", api.name));
    }
    line(out, "} }\n");
    line(out, "/// Reads the message of this API, and leaves `reader` behind it.");
    line(out, "pub fn decode(key: ApiKey, reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {");
    line(out, "Ok(match key {");
    for api in apis {
        line(out, &format!("ApiKey::{0} => Self::{0}(Message::decode(reader, version)?),", api.name));
    }
    line(out, "}) }\n");
    line(out, "/// Writes it as `version`.");
    line(out, "pub fn encode(&self, writer: &mut BytesMut, version: i16) -> Result<(), EncodeError> { match self {");
    for api in apis {
        line(out, &format!("Self::{}(message) => message.encode(writer, version),", api.name));
    }
    line(out, "} }\n}\n");
}

/// The text of `api_key.rs`.
pub(super) fn api_key(declarations: &[Declaration]) -> String {
    let apis = apis(declarations);
    let mut out = String::new();
    out.push_str(
        "//! The APIs by key, their versions and their headers.\n//!\n\
         //! Written by `cargo xtask generate` from `declarations`: change it there.\n\n\
         use std::fmt;\nuse std::ops::RangeInclusive;\n\n",
    );
    line(&mut out, "/// What can be asked of a broker.");
    line(&mut out, "#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]\n#[repr(i16)]");
    line(&mut out, "pub enum ApiKey {");
    for api in &apis {
        line(&mut out, &format!("/// Versions {}.", api.request.versions));
        line(&mut out, &format!("{} = {},", api.name, api.key));
    }
    line(&mut out, "}\n\nimpl ApiKey {");
    line(&mut out, "/// All of them, by number.");
    let names: Vec<String> = apis.iter().map(|it| format!("Self::{}", it.name)).collect();
    line(&mut out, &format!("pub const ALL: &'static [Self] = &[{}];\n", names.join(", ")));
    line(&mut out, "/// The API of that number, if we know it.\n#[must_use]");
    line(&mut out, "pub const fn from_i16(key: i16) -> Option<Self> { match key {");
    for api in &apis {
        line(&mut out, &format!("{} => Some(Self::{}),", api.key, api.name));
    }
    line(&mut out, "_ => None,\n} }\n");
    line(&mut out, "/// The number in the header.\n#[must_use]");
    line(&mut out, "pub const fn to_i16(self) -> i16 { self as i16 }\n");
    line(&mut out, "/// The name, as Kafka's schemas spell it.\n#[must_use]");
    line(&mut out, "pub const fn name(self) -> &'static str { match self {");
    for api in &apis {
        line(&mut out, &format!("Self::{0} => \"{0}\",", api.name));
    }
    line(&mut out, "} }\n");
    line(&mut out, "/// The versions that are settled: what may be offered and asked for. (A last version which Kafka");
    line(&mut out, "/// still calls unstable can be read and written, and is not in here.)\n#[must_use]");
    line(&mut out, "pub const fn versions(self) -> RangeInclusive<i16> { match self {");
    for api in &apis {
        let to = api.request.versions.to - i16::from(api.request.last_version_is_unstable);
        line(&mut out, &format!("Self::{} => {}..={to},", api.name, api.request.versions.from));
    }
    line(&mut out, "} }\n");
    line(&mut out, "/// Whether `version` has compact lengths and tagged fields.\n#[must_use]");
    line(&mut out, "pub const fn is_flexible(self, version: i16) -> bool {");
    line(&mut out, "let from = match self {");
    for api in &apis {
        let flexible = api.request.flexible;
        let from = if flexible.is_empty() { i16::MAX } else { flexible.from };
        let from = if from == i16::MAX { "i16::MAX".to_owned() } else { from.to_string() };
        line(&mut out, &format!("Self::{} => {from},", api.name));
    }
    line(&mut out, "};\nversion >= from }\n");
    line(&mut out, "/// The version of the header before such a request: 2 if flexible, else 1.\n#[must_use]");
    line(&mut out, "pub const fn request_header_version(self, version: i16) -> i16 {");
    line(&mut out, "if self.is_flexible(version) { 2 } else { 1 } }\n");
    line(&mut out, "/// The version of the header before such a response: 1 if flexible, else 0. Before an answer to");
    line(&mut out, "/// ApiVersions it is always 0: the client does not know yet what the broker speaks.\n#[must_use]");
    line(&mut out, "pub const fn response_header_version(self, version: i16) -> i16 { match self {");
    line(&mut out, "Self::ApiVersions => 0,");
    let others: Vec<String> =
        apis.iter().filter(|it| it.name != "ApiVersions").map(|it| format!("Self::{}", it.name)).collect();
    line(&mut out, &format!("{} => if self.is_flexible(version) {{ 1 }} else {{ 0 }},", others.join(" | ")));
    line(&mut out, "} }\n}\n");
    line(&mut out, "impl fmt::Display for ApiKey {");
    line(&mut out, "fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(self.name()) }\n}");
    out
}

fn line(out: &mut String, text: &str) {
    writeln!(out, "{text}").expect("a string takes it");
}
