use std::collections::HashMap;

/// Concatenated texts with their offsets.
pub(super) struct TextColumn {
    pub(super) offsets: Vec<u64>,
    pub(super) bytes: Vec<u8>,
}

impl Default for TextColumn {
    fn default() -> Self {
        Self { offsets: vec![0], bytes: Vec::new() }
    }
}

impl TextColumn {
    pub(super) fn push(&mut self, text: &str) {
        self.push_bytes(text.as_bytes());
    }

    fn push_bytes(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.offsets.push(self.bytes.len() as u64);
    }

    pub(super) fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    pub(super) fn get(&self, row: usize) -> &[u8] {
        let at = |row: usize| usize::try_from(self.offsets[row]).expect("an offset into a vector");
        &self.bytes[at(row)..at(row + 1)]
    }
}

/// Concatenated lists with their offsets.
pub(super) struct ListColumn<T> {
    pub(super) offsets: Vec<u32>,
    pub(super) cells: Vec<T>,
}

impl<T> Default for ListColumn<T> {
    fn default() -> Self {
        Self { offsets: vec![0], cells: Vec::new() }
    }
}

impl<T> ListColumn<T> {
    pub(super) fn push(&mut self, members: impl IntoIterator<Item = T>) {
        self.cells.extend(members);
        self.offsets.push(row_number(self.cells.len()));
    }
}

impl<T: Ord + Copy> ListColumn<T> {
    /// Returns all cells in ascending order, and the row of each cell's list.
    pub(super) fn sorted(&self) -> (Vec<T>, Vec<u32>) {
        let mut pairs = Vec::with_capacity(self.cells.len());
        for (row, bounds) in self.offsets.windows(2).enumerate() {
            let members = &self.cells[bounds[0] as usize..bounds[1] as usize];
            pairs.extend(members.iter().map(|&member| (member, row_number(row))));
        }
        pairs.sort_unstable();
        pairs.into_iter().unzip()
    }
}

/// Interned names.
#[derive(Default)]
pub(super) struct SymbolTable {
    texts: TextColumn,
    codes: HashMap<String, u32>,
}

impl SymbolTable {
    pub(super) fn code(&mut self, name: &str) -> u32 {
        if let Some(&code) = self.codes.get(name) {
            return code;
        }
        let code = row_number(self.codes.len());
        self.texts.push(name);
        self.codes.insert(name.to_owned(), code);
        code
    }

    /// Returns the names in ascending order (SEG-20), and the new code of each old code.
    pub(super) fn sorted(&self) -> (TextColumn, Vec<u32>) {
        let order = sorted_rows(self.texts.len(), |code| self.texts.get(code));
        let mut texts = TextColumn::default();
        let mut codes = vec![0; order.len()];
        for (new, &old) in (0..).zip(&order) {
            texts.push_bytes(self.texts.get(old as usize));
            codes[old as usize] = new;
        }
        (texts, codes)
    }
}

/// Converts a count of rows to a row number.
pub(super) fn row_number(rows: usize) -> u32 {
    u32::try_from(rows).expect("a tail is sealed long before SEGMENT_ROWS_MAX")
}

/// Returns the rows sorted by id, or nothing if the ids already ascend (SEG-13).
pub(super) fn rows_by_id(ids: &[u128]) -> Vec<u32> {
    if ids.is_sorted() { Vec::new() } else { sorted_rows(ids.len(), |row| ids[row]) }
}

/// Returns all rows sorted by `key`; equal keys stay in order of row.
pub(super) fn sorted_rows<K: Ord>(rows: usize, key: impl Fn(usize) -> K) -> Vec<u32> {
    let mut order: Vec<u32> = (0..row_number(rows)).collect();
    order.sort_by(|&a, &b| key(a as usize).cmp(&key(b as usize)).then(a.cmp(&b)));
    order
}
