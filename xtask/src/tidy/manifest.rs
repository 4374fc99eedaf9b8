//! As much of a Cargo manifest as the rules need: sections, and `name = value` lines in them.
//!
//! It does not know all of TOML: a value that spans lines is read as its first line. No rule needs more.

/// A manifest's lines, by section.
pub(super) struct Manifest<'a> {
    /// Section, name, value.
    lines: Vec<(&'a str, String, &'a str)>,
}

/// A line of a dependency section.
pub(super) struct Dependency<'a> {
    pub(super) name: String,
    pub(super) value: &'a str,
}

impl<'a> Manifest<'a> {
    pub(super) fn parse(text: &'a str) -> Self {
        let mut section = "";
        let mut lines = Vec::new();
        for line in text.lines().map(str::trim) {
            if line.starts_with('#') {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = name;
                // `[dependencies.name]` is a dependency too.
                if let Some((outer, name)) = name.rsplit_once('.')
                    && outer.ends_with("dependencies")
                {
                    lines.push((outer, name.to_owned(), ""));
                }
            } else if let Some((name, value)) = line.split_once('=') {
                let name = name.trim().trim_matches('"');
                lines.push((section, name.to_owned(), value.trim()));
            }
        }
        Self { lines }
    }

    /// The dependencies of a section. `name.workspace = true` is the dependency `name`.
    pub(super) fn section(&self, section: &str) -> impl Iterator<Item = Dependency<'a>> {
        self.lines
            .iter()
            .filter(move |(of, _, _)| *of == section)
            .map(|(_, name, value)| Dependency { name: name.split('.').next().unwrap_or_default().to_owned(), value })
    }

    /// The value of one line, without quotes.
    pub(super) fn value(&self, section: &str, name: &str) -> Option<String> {
        let (_, _, value) = self.lines.iter().find(|(of, line, _)| *of == section && line == name)?;
        Some(value.trim_matches('"').to_owned())
    }
}
