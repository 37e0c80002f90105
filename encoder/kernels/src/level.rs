/// Set of CPU instructions that a [`Kernels`](crate::Kernels) uses.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// Plain loops, for every CPU. The reference for all other levels.
    Scalar,
    /// x86-64 with AVX2, FMA and F16C (2013 and later).
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ, VL and VNNI (servers since 2019).
    Avx512,
    /// [`Level::Avx512`] and the matrix units for bfloat16 and 8-bit integers (servers since 2023), whose use the
    /// operating system must permit.
    Amx,
    /// AArch64 with NEON, which every AArch64 CPU has.
    Neon,
    /// [`Level::Neon`] and the dot product of 8-bit integers (most CPUs since 2018).
    NeonDot,
}

impl Level {
    /// Every level of this build, widest first. The CPU may lack some of them.
    pub const ALL: &'static [Level] =
        &[Level::Amx, Level::Avx512, Level::Avx2, Level::NeonDot, Level::Neon, Level::Scalar];

    /// The level's name in status pages and reports.
    pub fn name(self) -> &'static str {
        match self {
            Level::Scalar => "scalar",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
            Level::Amx => "amx",
            Level::Neon => "neon",
            Level::NeonDot => "neon-dot",
        }
    }
}
