//! Arguments of every command: the data directory, the encoder and the output format.

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

#[derive(Debug, Args, Clone)]
pub(super) struct Common {
    /// Data directory [default: $RECALLD_DATA, else $XDG_STATE_HOME/recalld, else
    /// ~/.local/state/recalld].
    #[arg(long, global = true, value_name = "DIR")]
    pub(super) data: Option<PathBuf>,
    /// Print JSON, for programs.
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// Folder of the encoder's files (config.json, tokenizer.json, model.safetensors) [default: $RECALLD_MODEL, else
    /// the last folder used for the store's model, else the default model's].
    #[arg(long, global = true, value_name = "DIR")]
    pub(super) model: Option<PathBuf>,
    /// CPU instructions for vectors: auto, scalar, avx2, avx512, amx, neon or neon-dot [default: $RECALLD_KERNEL, else
    /// auto: the widest that this CPU has].
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(super) kernel: Option<String>,
    /// Precision of the encoder's weights: auto, f32, f16 or int8 [default: $RECALLD_PRECISION, else auto: the fastest
    /// faithful one].
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

    /// The data directory, for a command that only reads the store.
    ///
    /// # Errors
    /// If the directory has no store.
    pub(super) fn data_with_store(&self) -> Result<PathBuf, Failure> {
        let data = self.data()?;
        data_dir::check_store(&data).map_err(Failure::Could)?;
        Ok(data)
    }

    /// Checks the arguments, and that there is a store to read.
    pub(super) fn check_reading(&self) -> Result<(), Failure> {
        self.settings()?;
        self.data_with_store().map(drop)
    }

    /// The data directory, for a command that reads files beside the store.
    ///
    /// # Errors
    /// If the directory is missing.
    pub(super) fn data_there(&self) -> Result<PathBuf, Failure> {
        let data = self.data()?;
        if data.is_dir() { Ok(data) } else { self.data_with_store() }
    }

    /// Returns true if the user named a data directory.
    pub(super) fn names_data(&self) -> bool {
        let variable = std::env::var_os("RECALLD_DATA");
        self.data.is_some() || variable.is_some_and(|value| !value.is_empty())
    }

    /// The ` --data` argument by which a suggested command finds the same data; empty if the flag was not given.
    pub(super) fn same_data(&self) -> Result<String, Failure> {
        match &self.data {
            None => Ok(String::new()),
            Some(_) => Ok(format!(" --data {}", tell::shell_word(&self.data()?))),
        }
    }

    /// The folder of the encoder's files from the flag or the environment.
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

    /// Starts the service in-process; `None` if a server has the store.
    pub(super) fn start_alone(&self) -> Result<Option<Started>, Failure> {
        let mut bar = Bar::of_command(Unit::Bytes, self.json);
        match app::start(&self.settings()?, &mut bar) {
            Ok(started) => Ok(Some(started)),
            Err(StartError::Busy(_)) => Ok(None),
            Err(error) => Err(Failure::could(error)),
        }
    }
}
