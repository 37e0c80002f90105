//! Layout of a packed weights file. Mirrors `format-spec/weights.md`; a test compares the two.
//!
//! All positions and sizes follow from the network's shape and the precision, independent of the contents of the
//! sections.

use std::ops::Range;

use kernels::{Precision, cells_in, padded_width};

use crate::config::Config;

pub(crate) const MAGIC: [u8; 8] = *b"RCLDWTS\0";
/// Least version that can read the output of this build.
pub(crate) const READ_VERSION: u16 = 1;
/// Least version that can write such files.
pub(crate) const WRITE_VERSION: u16 = 1;
/// Version of the packing rules. Incremented when the bytes of a section change for the same tensors: a file with
/// another number is packed anew, never converted.
pub const PACKING: u32 = 1;

pub(crate) const HEADER_BYTES: usize = 128;
pub(crate) const ENTRY_BYTES: usize = 32;
/// Alignment of every section: a cache line.
pub(crate) const LINE_BYTES: usize = 64;
/// Alignment of sections of at least this size: a memory page.
pub(crate) const PAGE_BYTES: usize = 4096;
/// Layer number of a section that belongs to no layer.
pub(crate) const NO_LAYER: u16 = u16::MAX;

const _: () = assert!(HEADER_BYTES.is_multiple_of(LINE_BYTES));
const _: () = assert!(PAGE_BYTES.is_multiple_of(LINE_BYTES));
const _: () = assert!(cfg!(target_endian = "little"), "sections are read where they lie");

/// Offsets of the header fields.
pub(crate) mod at {
    pub(crate) const READ_VERSION: usize = 8;
    pub(crate) const WRITE_VERSION: usize = 10;
    pub(crate) const PACKING: usize = 12;
    pub(crate) const PRECISION: usize = 16;
    pub(crate) const HIDDEN: usize = 20;
    pub(crate) const HEADS: usize = 24;
    pub(crate) const LAYERS: usize = 28;
    pub(crate) const INNER: usize = 32;
    pub(crate) const POSITIONS: usize = 36;
    pub(crate) const VOCABULARY: usize = 40;
    pub(crate) const EPSILON: usize = 44;
    pub(crate) const SOURCE_SHA256: usize = 48;
    pub(crate) const SOURCE_BYTES: usize = 80;
    pub(crate) const FILE_BYTES: usize = 88;
    pub(crate) const SECTIONS: usize = 96;
    pub(crate) const DIRECTORY_CRC: usize = 100;
    pub(crate) const RESERVED: usize = 104;
    pub(crate) const HEADER_CRC: usize = 124;
}

/// Offsets of the fields of a directory entry.
pub(crate) mod entry {
    pub(crate) const KIND: usize = 0;
    pub(crate) const LAYER: usize = 2;
    pub(crate) const CRC: usize = 4;
    pub(crate) const OFFSET: usize = 8;
    pub(crate) const BYTES: usize = 16;
    pub(crate) const RESERVED: usize = 24;
}

/// Number type of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    F32,
    F16,
    I8,
    I32,
}

impl Cell {
    fn bytes(self) -> usize {
        match self {
            Cell::F32 | Cell::I32 => 4,
            Cell::F16 => 2,
            Cell::I8 => 1,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Cell::F32 => "f32",
            Cell::F16 => "f16",
            Cell::I8 => "i8",
            Cell::I32 => "i32",
        }
    }
}

/// A section kind: its number, its name, and its source tensor.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) number: u16,
    pub(crate) name: &'static str,
    /// Tensor name without the prefix of its block.
    pub(crate) tensor: &'static str,
}

const fn kind(number: u16, name: &'static str, tensor: &'static str) -> Kind {
    Kind { number, name, tensor }
}

/// The four section kinds of a fully connected layer.
#[derive(Debug)]
pub(crate) struct DenseKinds {
    cells: Kind,
    bias: Kind,
    scales: Kind,
    offsets: Kind,
}

/// The two section kinds of a layer norm.
#[derive(Debug)]
pub(crate) struct NormKinds {
    gain: Kind,
    bias: Kind,
}

static WORDS: Kind = kind(1, "words", "embeddings.word_embeddings.weight");
static POSITIONS: Kind = kind(2, "positions", "embeddings.position_embeddings.weight");
static EMBEDDED: NormKinds = NormKinds {
    gain: kind(3, "embedded_gain", "embeddings.LayerNorm.weight"),
    bias: kind(4, "embedded_bias", "embeddings.LayerNorm.bias"),
};
static QUERY_KEY_VALUE: DenseKinds = DenseKinds {
    cells: kind(16, "query_key_value_cells", "attention.self.{query,key,value}.weight"),
    bias: kind(17, "query_key_value_bias", "attention.self.{query,key,value}.bias"),
    scales: kind(18, "query_key_value_scales", "attention.self.{query,key,value}.weight"),
    offsets: kind(19, "query_key_value_offsets", "attention.self.{query,key,value}.weight"),
};
static ATTENTION_OUT: DenseKinds = DenseKinds {
    cells: kind(20, "attention_out_cells", "attention.output.dense.weight"),
    bias: kind(21, "attention_out_bias", "attention.output.dense.bias"),
    scales: kind(22, "attention_out_scales", "attention.output.dense.weight"),
    offsets: kind(23, "attention_out_offsets", "attention.output.dense.weight"),
};
static ATTENDED: NormKinds = NormKinds {
    gain: kind(24, "attended_gain", "attention.output.LayerNorm.weight"),
    bias: kind(25, "attended_bias", "attention.output.LayerNorm.bias"),
};
static FEED_IN: DenseKinds = DenseKinds {
    cells: kind(26, "feed_in_cells", "intermediate.dense.weight"),
    bias: kind(27, "feed_in_bias", "intermediate.dense.bias"),
    scales: kind(28, "feed_in_scales", "intermediate.dense.weight"),
    offsets: kind(29, "feed_in_offsets", "intermediate.dense.weight"),
};
static FEED_OUT: DenseKinds = DenseKinds {
    cells: kind(30, "feed_out_cells", "output.dense.weight"),
    bias: kind(31, "feed_out_bias", "output.dense.bias"),
    scales: kind(32, "feed_out_scales", "output.dense.weight"),
    offsets: kind(33, "feed_out_offsets", "output.dense.weight"),
};
static FED: NormKinds = NormKinds {
    gain: kind(34, "fed_gain", "output.LayerNorm.weight"),
    bias: kind(35, "fed_bias", "output.LayerNorm.bias"),
};

/// A section at its position in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section {
    pub(crate) kind: &'static Kind,
    pub(crate) layer: u16,
    pub(crate) cell: Cell,
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

impl Section {
    pub(crate) fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.bytes
    }

    /// Describes the section for error messages: name, tensor, type and position.
    pub(crate) fn named(&self) -> String {
        let Section { kind: Kind { name, tensor, .. }, layer, cell, offset, bytes } = self;
        let block = match *layer {
            NO_LAYER => String::new(),
            layer => format!("encoder.layer.{layer}."),
        };
        let cells = bytes / cell.bytes();
        format!("{name} ({block}{tensor}, {cells} of {}, at byte {offset})", cell.name())
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct DenseSections {
    pub(crate) cells: Section,
    pub(crate) bias: Section,
    /// Scales and offsets of an int8 layer.
    pub(crate) codes: Option<(Section, Section)>,
    pub(crate) depth: usize,
    pub(crate) width: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct NormSections {
    pub(crate) gain: Section,
    pub(crate) bias: Section,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockSections {
    pub(crate) query_key_value: DenseSections,
    pub(crate) attention_out: DenseSections,
    pub(crate) attended: NormSections,
    pub(crate) feed_in: DenseSections,
    pub(crate) feed_out: DenseSections,
    pub(crate) fed: NormSections,
}

#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) precision: Precision,
    pub(crate) words: Section,
    pub(crate) positions: Section,
    pub(crate) embedded: NormSections,
    pub(crate) blocks: Vec<BlockSections>,
    /// All sections, in directory order.
    pub(crate) sections: Vec<Section>,
    pub(crate) file_bytes: usize,
}

/// Number of sections of a file: two tables and a norm, then those of the blocks.
fn section_count(layers: usize, precision: Precision) -> usize {
    let dense = if precision == Precision::Int8 { 4 } else { 2 };
    4 + layers * (4 * dense + 4)
}

impl Layout {
    /// Computes the layout of a file of this shape and precision.
    pub(crate) fn of(config: &Config, precision: Precision) -> Layout {
        let Config { hidden, inner, layers, positions, vocabulary, .. } = *config;
        let count = section_count(layers, precision);
        let directory_end = HEADER_BYTES + count * ENTRY_BYTES;
        let mut placer = Placer { precision, end: directory_end, sections: Vec::new() };
        // An f16 table halves the bytes of a row, for a rounding that no comparison can detect.
        let word = if precision == Precision::F32 { Cell::F32 } else { Cell::F16 };
        let words = placer.place(&WORDS, NO_LAYER, word, vocabulary * hidden);
        let positions = placer.place(&POSITIONS, NO_LAYER, Cell::F32, positions * hidden);
        let embedded = placer.norm(&EMBEDDED, NO_LAYER, hidden);
        let numbers = 0..u16::try_from(layers).expect("a bounded number of layers");
        let blocks: Vec<BlockSections> = numbers
            .map(|layer| BlockSections {
                query_key_value: placer.dense(&QUERY_KEY_VALUE, layer, hidden, 3 * hidden),
                attention_out: placer.dense(&ATTENTION_OUT, layer, hidden, hidden),
                attended: placer.norm(&ATTENDED, layer, hidden),
                feed_in: placer.dense(&FEED_IN, layer, hidden, inner),
                feed_out: placer.dense(&FEED_OUT, layer, inner, hidden),
                fed: placer.norm(&FED, layer, hidden),
            })
            .collect();
        let Placer { end: file_bytes, sections, .. } = placer;
        assert_eq!(sections.len(), count, "the directory has room for all sections");
        Layout { precision, words, positions, embedded, blocks, sections, file_bytes }
    }

    pub(crate) fn directory(&self) -> Range<usize> {
        HEADER_BYTES..HEADER_BYTES + self.sections.len() * ENTRY_BYTES
    }
}

impl BlockSections {
    /// Byte range of the block's sections, which are contiguous.
    pub(crate) fn range(&self) -> Range<usize> {
        self.query_key_value.cells.offset..self.fed.bias.range().end
    }
}

/// Places sections one after the other.
struct Placer {
    precision: Precision,
    end: usize,
    sections: Vec<Section>,
}

impl Placer {
    fn place(&mut self, kind: &'static Kind, layer: u16, cell: Cell, count: usize) -> Section {
        let bytes = count * cell.bytes();
        let align = if bytes < PAGE_BYTES { LINE_BYTES } else { PAGE_BYTES };
        let offset = self.end.next_multiple_of(align);
        let section = Section { kind, layer, cell, offset, bytes };
        self.end = offset + bytes;
        self.sections.push(section);
        section
    }

    fn norm(&mut self, kinds: &'static NormKinds, layer: u16, width: usize) -> NormSections {
        NormSections {
            gain: self.place(&kinds.gain, layer, Cell::F32, width),
            bias: self.place(&kinds.bias, layer, Cell::F32, width),
        }
    }

    fn dense(
        &mut self,
        kinds: &'static DenseKinds,
        layer: u16,
        depth: usize,
        width: usize,
    ) -> DenseSections {
        let cell = match self.precision {
            Precision::F32 => Cell::F32,
            Precision::F16 => Cell::F16,
            Precision::Int8 => Cell::I8,
        };
        let columns = padded_width(width);
        DenseSections {
            cells: self.place(&kinds.cells, layer, cell, cells_in(depth, width)),
            bias: self.place(&kinds.bias, layer, Cell::F32, columns),
            codes: (cell == Cell::I8).then(|| {
                let scales = self.place(&kinds.scales, layer, Cell::F32, columns);
                (scales, self.place(&kinds.offsets, layer, Cell::I32, columns))
            }),
            depth,
            width,
        }
    }
}
