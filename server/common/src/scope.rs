//! What a caller may do, as tokens and the catalog name it.

/// What a caller may do, as tokens and the catalog name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Read items, documents, the graph, status.
    TenantRead,
    /// Recall.
    BrainProxy,
    /// Write items.
    MemoryWrite,
    /// Ingest files and texts.
    IngestWrite,
    /// Read and write agents' state.
    AgentState,
    /// Read the ledger.
    AuditRead,
    /// Run benchmarks.
    BenchRun,
    /// Say for whom a call is made.
    IdentityAssert,
}

impl Scope {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::TenantRead,
        Self::BrainProxy,
        Self::MemoryWrite,
        Self::IngestWrite,
        Self::AgentState,
        Self::AuditRead,
        Self::BenchRun,
        Self::IdentityAssert,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::TenantRead => "tenant:read",
            Self::BrainProxy => "brain:proxy",
            Self::MemoryWrite => "memory:write",
            Self::IngestWrite => "ingest:write",
            Self::AgentState => "agent:state",
            Self::AuditRead => "audit:read",
            Self::BenchRun => "bench:run",
            Self::IdentityAssert => "identity:assert",
        }
    }

    /// The scope of this name; `None` for any other text.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|scope| scope.name() == name)
    }
}
