//! Permissions of a caller, as named in tokens and in the catalog.

/// A permission of a caller, as named in tokens and in the catalog.
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
    /// Assert the turn identity of a call.
    IdentityAssert,
}

impl Scope {
    /// All scopes.
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

    /// Name in tokens.
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

    /// Parses a scope's name; `None` for any other text.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|scope| scope.name() == name)
    }
}
