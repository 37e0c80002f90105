use crate::document::add_field;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Parts of a file (chunks, segments, blocks) that are read.
    pub(super) const PARTS_MAX: usize = 10_000;
    /// Total bytes of inflated texts per image.
    pub(super) const INFLATED_BYTES_MAX: usize = 256 << 10;
}

/// Metadata of an image.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) kind: &'static str,
    pub(super) width: u32,
    pub(super) height: u32,
    /// Title, description and the like, in order.
    pub(super) fields: Vec<(String, String)>,
    pub(super) notes: Vec<String>,
}

impl Facts {
    pub(super) fn of(kind: &'static str) -> Self {
        Self { kind, ..Self::default() }
    }

    /// Adds a field unless its value is empty or already present.
    pub(super) fn add(&mut self, name: &str, value: &str) {
        let value = value.trim_matches(['\0', ' ', '\n', '\r', '\t']);
        let is_known = self.fields.iter().any(|(_, known)| *known == value);
        if !value.is_empty() && !is_known {
            add_field(&mut self.fields, name, value);
        }
    }

    pub(super) fn ends_early(&mut self) {
        self.notes.push("the file ends early".to_owned());
    }
}
