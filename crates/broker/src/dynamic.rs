//! What is set while the broker runs: levels of features, and settings of brokers, groups and client metrics. (A topic's own
//! settings stand in the log's catalog.)
//!
//! Kept in one small text file of the data folder, a line each, replaced as a whole before the change is answered. The writer
//! thread alone changes it; everybody reads.
//!
//! **What it does not know**: what any key means, who asks, the protocol's numbers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

/// The file, in the data folder.
pub(crate) const FILE: &str = "dynamic.properties";

/// The first line says which layout follows.
const HEADER: &str = "# atonce dynamic settings, version 1";

/// Whose settings. (Brokers: a node's id, or nothing for all of them.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    Broker,
    Group,
    ClientMetrics,
}

impl Owner {
    fn word(self) -> &'static str {
        match self {
            Self::Broker => "broker",
            Self::Group => "group",
            Self::ClientMetrics => "client-metrics",
        }
    }
}

/// Settings by key.
pub(crate) type Configs = BTreeMap<String, String>;

/// All of it, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dynamic {
    /// Levels that were set by hand; any other feature stands where the broker puts it.
    pub(crate) features: BTreeMap<String, i16>,
    /// How often features were changed.
    pub(crate) feature_changes: i64,
    configs: BTreeMap<(Owner, String), Configs>,
}

static NOTHING: Configs = Configs::new();

impl Dynamic {
    /// What is set for that one.
    pub(crate) fn configs(&self, owner: Owner, name: &str) -> &Configs {
        // A look-up by a borrowed pair needs an owned one; there are few.
        self.configs.get(&(owner, name.to_owned())).unwrap_or(&NOTHING)
    }

    /// Replaces what is set for that one.
    pub(crate) fn set_configs(&mut self, owner: Owner, name: &str, configs: Configs) {
        let key = (owner, name.to_owned());
        if configs.is_empty() {
            self.configs.remove(&key);
        } else {
            self.configs.insert(key, configs);
        }
    }

    /// All of that kind for which something is set.
    pub(crate) fn names(&self, owner: Owner) -> impl Iterator<Item = &str> {
        self.configs.keys().filter(move |(of, _)| *of == owner).map(|(_, name)| name.as_str())
    }

    /// As it stands in the file.
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("{HEADER}\nfeature-changes={}\n", self.feature_changes);
        for (feature, level) in &self.features {
            text += &format!("feature/{}={level}\n", escaped(feature));
        }
        for ((owner, name), configs) in &self.configs {
            for (key, value) in configs {
                text += &format!("{}/{}/{}={}\n", owner.word(), escaped(name), escaped(key), escaped(value));
            }
        }
        text
    }

    /// Reads what [`to_text`](Self::to_text) wrote. Errors: the line that makes no sense.
    pub(crate) fn from_text(text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        if lines.next() != Some(HEADER) {
            return Err(format!("the first line is not {HEADER:?}: written by a later version?"));
        }
        let mut dynamic = Self::default();
        for line in lines.filter(|line| !line.is_empty()) {
            dynamic.read_line(line).ok_or_else(|| format!("this line makes no sense: {line}"))?;
        }
        Ok(dynamic)
    }

    fn read_line(&mut self, line: &str) -> Option<()> {
        let (key, value) = line.split_once('=')?;
        if key == "feature-changes" {
            self.feature_changes = value.parse().ok()?;
            return Some(());
        }
        if let Some(feature) = key.strip_prefix("feature/") {
            self.features.insert(unescaped(feature)?, value.parse().ok()?);
            return Some(());
        }
        let (word, rest) = key.split_once('/')?;
        let owner = [Owner::Broker, Owner::Group, Owner::ClientMetrics].into_iter().find(|it| it.word() == word)?;
        let (name, key) = rest.split_once('/')?;
        let configs = self.configs.entry((owner, unescaped(name)?)).or_default();
        configs.insert(unescaped(key)?, unescaped(value)?);
        Some(())
    }

    /// What the folder says; nothing, where there is no file.
    pub(crate) fn read(folder: &Path) -> Result<Self, String> {
        let path = folder.join(FILE);
        match std::fs::read_to_string(&path) {
            Ok(text) => Self::from_text(&text).map_err(|reason| format!("{}: {reason}", path.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }
}

/// Without what the layout uses: `/`, `=`, `%`, and control characters.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '/' | '=' | '%') || c.is_control() {
            escaped += &format!("%{:06x}", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

fn unescaped(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut unescaped = parts.next()?.to_owned();
    for part in parts {
        let code = u32::from_str_radix(part.get(..6)?, 16).ok()?;
        unescaped.push(char::from_u32(code)?);
        unescaped += part.get(6..)?;
    }
    Some(unescaped)
}

/// The picture that everybody reads.
#[derive(Debug, Default)]
pub(crate) struct Current(RwLock<Arc<Dynamic>>);

impl Current {
    pub(crate) fn new(dynamic: Dynamic) -> Self {
        Self(RwLock::new(Arc::new(dynamic)))
    }

    /// As it stands now.
    pub(crate) fn get(&self) -> Arc<Dynamic> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another one in its place.
    pub(crate) fn replace(&self, dynamic: Dynamic) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(dynamic);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_is_read_again_whatever_the_names() {
        let mut dynamic = Dynamic { feature_changes: 3, ..Default::default() };
        dynamic.features.insert("transaction.version".to_owned(), 1);
        for (owner, name) in [(Owner::Broker, ""), (Owner::Group, "a/b=c%\n ü"), (Owner::ClientMetrics, "x")] {
            let configs = [("key".to_owned(), "v=1,/%2\t\n".to_owned()), ("k/2".to_owned(), String::new())];
            dynamic.set_configs(owner, name, configs.into());
        }
        let text = dynamic.to_text();
        assert_eq!(Dynamic::from_text(&text), Ok(dynamic.clone()), "{text}");
        dynamic.set_configs(Owner::Group, "a/b=c%\n ü", Configs::new());
        assert_eq!(dynamic.names(Owner::Group).count(), 0);
    }

    #[test]
    fn a_file_of_another_version_or_a_damaged_line_is_refused_in_words() {
        assert!(Dynamic::from_text("").is_err());
        assert!(Dynamic::from_text("# atonce dynamic settings, version 2\n").is_err());
        for line in ["x", "feature/a=b", "nobody/x/y=z", "group/x=z", "group/%zz/y=z", "group/%0/y=z"] {
            let refused = Dynamic::from_text(&format!("{HEADER}\n{line}\n")).expect_err(line);
            assert!(refused.contains(line), "{refused}");
        }
    }
}
