//! Packing: from the tensors of `model.safetensors` to the bytes of a packed weights file.
//!
//! The name, shape and type of every tensor are checked before any memory is allocated. Then two threads write one
//! layer after the other in place, so that besides the source there is one copy of the weights and, for each thread,
//! one layer, converted and packed. Equal tensors give equal bytes.

use std::ops::Range;

use kernels::{PackedCells, PackedLinear, Precision, Rows, f16};

use super::layout::{
    BlockSections, DenseSections, ENTRY_BYTES, HEADER_BYTES, Layout, MAGIC, NormSections, PACKING,
    READ_VERSION, Section, WRITE_VERSION, at, entry,
};
use super::memory::PackedWeights;
use crate::OpenError;
use crate::config::Config;
use crate::weights::{Tensor, Weights};

/// Identity of the file that the weights are packed from.
pub(crate) struct Source {
    pub(crate) sha256: [u8; 32],
    pub(crate) bytes: usize,
}

/// Packs all weights of a network. `source` is called last: its hash may still be in progress.
pub(crate) fn pack(
    weights: &Weights<'_>,
    config: &Config,
    precision: Precision,
    source: impl FnOnce() -> Source,
) -> Result<PackedWeights, OpenError> {
    let tensors = Tensors::find(weights, config)?;
    let layout = Layout::of(config, precision);
    let mut packed = PackedWeights::zeros(layout.file_bytes);
    let bytes = packed.as_mut();
    fill(&layout, &tensors, bytes)?;
    write_directory(&layout, bytes);
    write_header(&layout, config, &source(), bytes);
    Ok(packed)
}

/// Half of the blocks go to a second thread: packing is bound by memory and page faults, of which two threads handle
/// about twice as many a second. The tables are about as large as all blocks of a small model, but need little work.
fn fill(layout: &Layout, tensors: &Tensors<'_>, bytes: &mut [u8]) -> Result<(), OpenError> {
    let half = layout.blocks.len() / 2;
    let middle = layout.blocks[half].range().start;
    let (front, back) = bytes.split_at_mut(middle);
    let (mut front, mut back) = (Out { bytes: front, base: 0 }, Out { bytes: back, base: middle });
    let fill_blocks = |blocks: Range<usize>, out: &mut Out<'_>| {
        blocks.into_iter().try_for_each(|i| {
            fill_block(layout.precision, &layout.blocks[i], &tensors.blocks[i], out)
        })
    };
    let (front, back) = std::thread::scope(|scope| {
        let all = half..layout.blocks.len();
        let back = scope.spawn(move || fill_blocks(all, &mut back));
        let tables = fill_tables(layout, tensors, &mut front);
        (tables.and_then(|()| fill_blocks(0..half, &mut front)), back.join())
    });
    front?;
    back.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// A section of the file's bytes, with its offset in the file.
struct Out<'a> {
    bytes: &'a mut [u8],
    base: usize,
}

impl Out<'_> {
    fn put<T: bytemuck::NoUninit>(&mut self, section: &Section, cells: &[T]) {
        let start = section.offset - self.base;
        self.bytes[start..start + section.bytes].copy_from_slice(bytemuck::cast_slice(cells));
    }
}

fn fill_tables(layout: &Layout, tensors: &Tensors<'_>, out: &mut Out<'_>) -> Result<(), OpenError> {
    let words = tensors.words.floats()?;
    match layout.precision {
        Precision::F32 => out.put(&layout.words, &words),
        Precision::F16 | Precision::Int8 => {
            check_magnitudes(&tensors.words, &words, layout.precision, HALF_OVERFLOW)?;
            let halves: Vec<f16> = words.iter().map(|&x| f16::from_f32(x)).collect();
            out.put(&layout.words, &halves);
        }
    }
    drop(words);
    let mut positions = tensors.positions.floats()?;
    let segments = tensors.segments.floats()?;
    for row in positions.chunks_exact_mut(tensors.hidden) {
        for (x, segment) in row.iter_mut().zip(&segments) {
            *x += segment;
        }
    }
    if !positions.iter().all(|x| x.is_finite()) {
        return Err(OpenError::Tensor {
            name: tensors.positions.name().to_owned(),
            found: "a value that is infinite once the first segment's row is added".into(),
            wanted: format!("{}, with finite sums", tensors.positions.cells()),
        });
    }
    out.put(&layout.positions, &positions);
    fill_norm(&layout.embedded, &tensors.embedded, out)
}

fn fill_norm(to: &NormSections, norm: &Norm<'_>, out: &mut Out<'_>) -> Result<(), OpenError> {
    out.put(&to.gain, &norm.gain.floats()?);
    out.put(&to.bias, &norm.bias.floats()?);
    Ok(())
}

fn fill_block(
    precision: Precision,
    to: &BlockSections,
    block: &Block<'_>,
    out: &mut Out<'_>,
) -> Result<(), OpenError> {
    fill_dense(precision, &to.query_key_value, &block.query_key_value, out)?;
    fill_dense(precision, &to.attention_out, &block.attention_out, out)?;
    fill_norm(&to.attended, &block.attended, out)?;
    fill_dense(precision, &to.feed_in, &block.feed_in, out)?;
    fill_dense(precision, &to.feed_out, &block.feed_out, out)?;
    fill_norm(&to.fed, &block.fed, out)
}

/// Packs a layer; several layers are concatenated as the columns of one.
fn fill_dense(
    precision: Precision,
    to: &DenseSections,
    parts: &[Dense<'_>],
    out: &mut Out<'_>,
) -> Result<(), OpenError> {
    let (mut cells, mut bias) = (Vec::new(), Vec::new());
    for part in parts {
        let floats = part.cells.floats()?;
        match precision {
            Precision::F32 => {}
            Precision::F16 => check_magnitudes(&part.cells, &floats, precision, HALF_OVERFLOW)?,
            Precision::Int8 => check_magnitudes(&part.cells, &floats, precision, ROTATED_OVERFLOW)?,
        }
        if cells.is_empty() {
            cells = floats
        } else {
            cells.extend(floats)
        }
        bias.extend(part.bias.floats()?);
    }
    let PackedLinear { cells, bias, .. } =
        PackedLinear::pack(precision, Rows::dense(&cells, to.depth), &bias);
    match &cells {
        PackedCells::F32(cells) => out.put(&to.cells, cells),
        PackedCells::F16(cells) => out.put(&to.cells, cells),
        PackedCells::Int8 { codes, .. } => out.put(&to.cells, codes),
    }
    out.put(&to.bias, &bias);
    if let (PackedCells::Int8 { scales, offsets, .. }, Some(places)) = (&cells, &to.codes) {
        out.put(&places.0, scales);
        out.put(&places.1, offsets);
    }
    Ok(())
}

/// First magnitude that rounds to no finite f16 value.
const HALF_OVERFLOW: f32 = 65_520.0;
/// Magnitude from which on a rotation, which sums up to 128 values, may become infinite.
const ROTATED_OVERFLOW: f32 = f32::MAX / 128.0;

/// Rejects values of magnitude `limit` and above.
fn check_magnitudes(
    tensor: &Tensor<'_>,
    values: &[f32],
    precision: Precision,
    limit: f32,
) -> Result<(), OpenError> {
    let largest = values.iter().fold(0.0, |top: f32, x| top.max(x.abs()));
    if largest < limit {
        return Ok(());
    }
    Err(OpenError::Imprecise {
        name: tensor.name().to_owned(),
        precision: precision.name(),
        found: format!("a value of magnitude {largest} in its {}", tensor.cells()),
        wanted: format!("magnitudes below {limit}"),
    })
}

/// Writes the position and checksum of each section.
fn write_directory(layout: &Layout, bytes: &mut [u8]) {
    let (head, body) = bytes.split_at_mut(layout.directory().end);
    let base = head.len();
    let (entries, _) = head[HEADER_BYTES..].as_chunks_mut::<ENTRY_BYTES>();
    for (section, to) in layout.sections.iter().zip(entries) {
        let range = section.range();
        let crc = crc32c::crc32c(&body[range.start - base..range.end - base]);
        put(to, entry::KIND, section.kind.number.to_le_bytes());
        put(to, entry::LAYER, section.layer.to_le_bytes());
        put(to, entry::CRC, crc.to_le_bytes());
        put(to, entry::OFFSET, (section.offset as u64).to_le_bytes());
        put(to, entry::BYTES, (section.bytes as u64).to_le_bytes());
    }
}

fn write_header(layout: &Layout, config: &Config, source: &Source, bytes: &mut [u8]) {
    let (head, rest) = bytes.split_at_mut(HEADER_BYTES);
    let directory = &rest[..layout.directory().len()];
    put(head, 0, MAGIC);
    put(head, at::READ_VERSION, READ_VERSION.to_le_bytes());
    put(head, at::WRITE_VERSION, WRITE_VERSION.to_le_bytes());
    put(head, at::PACKING, PACKING.to_le_bytes());
    for (at, number) in numbers(layout, config) {
        put(head, at, number.to_le_bytes());
    }
    put(head, at::SOURCE_SHA256, source.sha256);
    put(head, at::SOURCE_BYTES, (source.bytes as u64).to_le_bytes());
    put(head, at::FILE_BYTES, (layout.file_bytes as u64).to_le_bytes());
    put(head, at::DIRECTORY_CRC, crc32c::crc32c(directory).to_le_bytes());
    let crc = crc32c::crc32c(&head[..at::HEADER_CRC]);
    put(head, at::HEADER_CRC, crc.to_le_bytes());
}

/// Returns the header numbers that a model's settings determine, with their offsets.
pub(super) fn numbers(layout: &Layout, config: &Config) -> [(usize, u32); 9] {
    let number = |n: usize| u32::try_from(n).expect("settings and their sections are bounded");
    [
        (at::PRECISION, layout.precision as u32),
        (at::HIDDEN, number(config.hidden)),
        (at::HEADS, number(config.heads)),
        (at::LAYERS, number(config.layers)),
        (at::INNER, number(config.inner)),
        (at::POSITIONS, number(config.positions)),
        (at::VOCABULARY, number(config.vocabulary)),
        (at::EPSILON, config.epsilon.to_bits()),
        (at::SECTIONS, number(layout.sections.len())),
    ]
}

fn put<const N: usize>(to: &mut [u8], at: usize, bytes: [u8; N]) {
    to[at..at + N].copy_from_slice(&bytes);
}

/// All tensors of a network, of the right shape, by their published names.
struct Tensors<'a> {
    hidden: usize,
    words: Tensor<'a>,
    positions: Tensor<'a>,
    /// The segment rows, of which only the first is used.
    segments: Tensor<'a>,
    embedded: Norm<'a>,
    blocks: Vec<Block<'a>>,
}

struct Norm<'a> {
    gain: Tensor<'a>,
    bias: Tensor<'a>,
}

struct Dense<'a> {
    cells: Tensor<'a>,
    bias: Tensor<'a>,
}

struct Block<'a> {
    /// Three projections side by side: one product instead of three.
    query_key_value: [Dense<'a>; 3],
    attention_out: [Dense<'a>; 1],
    attended: Norm<'a>,
    feed_in: [Dense<'a>; 1],
    feed_out: [Dense<'a>; 1],
    fed: Norm<'a>,
}

impl<'a> Tensors<'a> {
    fn find(weights: &Weights<'a>, config: &Config) -> Result<Tensors<'a>, OpenError> {
        let d = config.hidden;
        let table = |name: &str, rows: usize| {
            weights.tensor(&format!("embeddings.{name}_embeddings.weight"), &[rows, d])
        };
        let words = table("word", config.vocabulary)?;
        let positions = table("position", config.positions)?;
        let segments = table("token_type", config.types)?;
        let embedded = Norm::find(weights, d, "embeddings.LayerNorm")?;
        let blocks: Result<Vec<Block<'a>>, OpenError> =
            (0..config.layers).map(|i| Block::find(weights, config, i)).collect();
        Ok(Tensors { hidden: d, words, positions, segments, embedded, blocks: blocks? })
    }
}

impl<'a> Block<'a> {
    fn find(weights: &Weights<'a>, config: &Config, i: usize) -> Result<Block<'a>, OpenError> {
        let (d, wide) = (config.hidden, config.inner);
        let name = |part: &str| format!("encoder.layer.{i}.{part}");
        let dense = |part: &str, out: usize, width: usize| {
            let cells = weights.tensor(&name(&format!("{part}.weight")), &[out, width])?;
            let bias = weights.tensor(&name(&format!("{part}.bias")), &[out])?;
            Ok::<_, OpenError>(Dense { cells, bias })
        };
        Ok(Block {
            query_key_value: [
                dense("attention.self.query", d, d)?,
                dense("attention.self.key", d, d)?,
                dense("attention.self.value", d, d)?,
            ],
            attention_out: [dense("attention.output.dense", d, d)?],
            attended: Norm::find(weights, d, &name("attention.output.LayerNorm"))?,
            feed_in: [dense("intermediate.dense", wide, d)?],
            feed_out: [dense("output.dense", d, wide)?],
            fed: Norm::find(weights, d, &name("output.LayerNorm"))?,
        })
    }
}

impl<'a> Norm<'a> {
    fn find(weights: &Weights<'a>, width: usize, name: &str) -> Result<Norm<'a>, OpenError> {
        Ok(Norm {
            gain: weights.tensor(&format!("{name}.weight"), &[width])?,
            bias: weights.tensor(&format!("{name}.bias"), &[width])?,
        })
    }
}
