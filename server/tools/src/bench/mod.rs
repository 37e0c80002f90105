//! Family `bench`: measurements of speed and quality on this machine and this workspace.

mod encoder;
mod quality;
mod recall;
mod report;
mod storage;
mod timer;

pub(super) use storage::NAME as STORAGE_NAME;

use recalld_tool_framework::Family;

limit_table::limits! {
    pub(crate) const LIMITS = [quality, recall, storage, timer];
}

pub(super) static FAMILY: Family = Family {
    name: "bench",
    about: "How fast and how good recall, the encoder and the disk are.",
    tools: &[recall::RECALL, encoder::ENCODER, storage::STORAGE, quality::QUALITY, report::REPORT],
};
