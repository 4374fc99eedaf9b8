//! The declarations of the protocol, by name and by key.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use atonce_protocol::ApiKey;
use xtask::schema::{Declaration, Message, parse};

/// An API as declared.
#[derive(Clone, Debug)]
pub struct Api {
    /// Its key.
    pub key: ApiKey,
    /// Its name, as in `EndTxn`.
    pub name: String,
    /// What is asked.
    pub request: Message,
    /// What is answered.
    pub response: Message,
}

impl Api {
    /// The highest version that is settled.
    #[must_use]
    pub fn newest(&self) -> i16 {
        self.request.versions.to - i16::from(self.request.last_version_is_unstable)
    }
}

/// All of them.
#[derive(Clone, Debug)]
pub struct Apis(BTreeMap<String, Api>);

impl Apis {
    /// Reads the workspace's declarations.
    pub fn read() -> Result<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/protocol/declarations");
        let mut apis = BTreeMap::new();
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            if let Declaration::Api { key, name, request, response } = parse(&text)?
                && let Some(key) = ApiKey::from_i16(key)
            {
                apis.insert(name.clone(), Api { key, name, request, response });
            }
        }
        Ok(Self(apis))
    }

    /// The API of that name.
    pub fn get(&self, name: &str) -> Result<&Api> {
        self.0.get(name).with_context(|| format!("no API is called {name}"))
    }

    /// All, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Api> {
        self.0.values()
    }
}
