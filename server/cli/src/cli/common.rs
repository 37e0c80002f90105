//! The arguments of every command: the data directory, the encoder, the form of answers.

use std::path::PathBuf;

use clap::Args;
use engine::{Durability, SearchMode};

use super::failure::Failure;
use super::{encoding, read_pdf, tell};
use crate::app;
use crate::app::{Settings, Started};
use recalld_config::Config;
use recalld_embedding::encoding::Encoding;
use recalld_embedding::model::{Bar, Unit};
use recalld_fs_util::data_dir;
use recalld_fs_util::start_error::StartError;
use recalld_policy::limits::CALL_TIME_MAX;

/// What every command takes.
#[derive(Debug, Args, Clone)]
pub(super) struct Common {
    /// Data directory [default: $RECALLD_DATA, else $XDG_STATE_HOME/recalld, else
    /// ~/.local/state/recalld].
    #[arg(long, global = true, value_name = "DIR")]
    pub(super) data: Option<PathBuf>,
    /// Print JSON, for programs.
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// Folder with the encoder's files (config.json, tokenizer.json, model.safetensors) [default: $RECALLD_MODEL, else
    /// where they were when the store's model was used last, else the default model's].
    #[arg(long, global = true, value_name = "DIR")]
    pub(super) model: Option<PathBuf>,
    /// Which instructions vectors are computed with: auto, scalar, avx2, avx512, amx, neon or
    /// neon-dot [default: $RECALLD_KERNEL, else auto: the widest that this CPU has].
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(super) kernel: Option<String>,
    /// How the encoder's weights are stored: auto, f32, f16 or int8 [default: $RECALLD_PRECISION,
    /// else auto: the fastest that is faithful].
    #[arg(long, global = true, value_name = "PRECISION")]
    pub(super) precision: Option<String>,
}

impl Common {
    pub(super) fn data(&self) -> Result<PathBuf, Failure> {
        if let Some(data) = &self.data {
            return std::path::absolute(data).map_err(Failure::could);
        }
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let chosen = set("RECALLD_DATA")
            .map(PathBuf::from)
            .or_else(|| set("XDG_STATE_HOME").map(|home| PathBuf::from(home).join("recalld")))
            .or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".local/state/recalld")));
        let chosen = chosen.ok_or_else(|| {
            Failure::Usage("HOME is not set; say where the data is with --data DIR".to_owned())
        })?;
        std::path::absolute(chosen).map_err(Failure::could)
    }

    /// The data directory, for a command that only reads: the store is there.
    pub(super) fn data_with_store(&self) -> Result<PathBuf, Failure> {
        let data = self.data()?;
        data_dir::check_store(&data).map_err(Failure::Could)?;
        Ok(data)
    }

    /// For a command that opens the store to read it: what was typed is right, and the store is there.
    pub(super) fn check_reading(&self) -> Result<(), Failure> {
        self.settings()?;
        self.data_with_store().map(drop)
    }

    /// The data directory, for a command that reads what is beside the store: it is there.
    pub(super) fn data_there(&self) -> Result<PathBuf, Failure> {
        let data = self.data()?;
        if data.is_dir() { Ok(data) } else { self.data_with_store() }
    }

    /// Whether somebody said where the data is.
    pub(super) fn names_data(&self) -> bool {
        let variable = std::env::var_os("RECALLD_DATA");
        self.data.is_some() || variable.is_some_and(|value| !value.is_empty())
    }

    /// What a command that is told to the user needs to find the same data: nothing, or `--data`.
    pub(super) fn same_data(&self) -> Result<String, Failure> {
        match &self.data {
            None => Ok(String::new()),
            Some(_) => Ok(format!(" --data {}", tell::shell_word(&self.data()?))),
        }
    }

    /// The folder of the encoder's files, if one is named.
    pub(super) fn model_directory(&self) -> Option<PathBuf> {
        let set = || std::env::var_os("RECALLD_MODEL").filter(|value| !value.is_empty());
        self.model.clone().or_else(|| set().map(PathBuf::from))
    }

    pub(super) fn encoding(&self) -> Result<Encoding, Failure> {
        encoding::chosen(self.kernel.as_deref(), self.precision.as_deref(), &|name| {
            std::env::var_os(name)
        })
        .map_err(Failure::Usage)
    }

    pub(super) fn settings(&self) -> Result<Settings, Failure> {
        Ok(Settings {
            data: self.data()?,
            model: self.model_directory(),
            encoding: self.encoding()?,
            call_time_max: CALL_TIME_MAX,
            durability: Durability::Sync,
            search_mode: SearchMode::default(),
            config: Config::default(),
            public_url: None,
            pdf: read_pdf::this_program(),
        })
    }

    /// The parts, for a command that has the store to itself; `None` when a server has it.
    pub(super) fn start_alone(&self) -> Result<Option<Started>, Failure> {
        let mut bar = Bar::of_command(Unit::Bytes, self.json);
        match app::start(&self.settings()?, &mut bar) {
            Ok(started) => Ok(Some(started)),
            Err(StartError::Busy(_)) => Ok(None),
            Err(error) => Err(Failure::could(error)),
        }
    }
}
