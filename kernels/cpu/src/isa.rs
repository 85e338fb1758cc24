//! The SIMD instruction sets of the processor.

/// The expression for an instruction set: those with SIMD are compiled only for x86-64 and with optimisation. Returns from the function that uses it.
macro_rules! by_isa {
    ($isa:expr, $portable:expr, $avx2:expr, $avx512:expr) => {{
        #[cfg(simd)]
        match $isa {
            Isa::Portable => {}
            Isa::Avx2 => return $avx2,
            Isa::Avx512 => return $avx512,
        }
        let _ = $isa;
        $portable
    }};
}
pub(crate) use by_isa;

/// A SIMD instruction set that kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Isa {
    /// The baseline of the architecture, without explicit SIMD.
    Portable,
    /// 256-bit vectors with fused multiply-add.
    Avx2,
    /// 512-bit vectors with masks.
    Avx512,
}

impl Isa {
    /// The widest instruction set of this processor that kernels are compiled for.
    pub fn detect() -> Self {
        Self::available().last().copied().unwrap_or(Self::Portable)
    }

    /// All instruction sets of this processor that kernels are compiled for, the widest last. Without optimisation it is the portable
    /// one alone.
    pub fn available() -> &'static [Self] {
        #[cfg(simd)]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                let avx512 = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl");
                return if avx512 {
                    &[Self::Portable, Self::Avx2, Self::Avx512]
                } else {
                    &[Self::Portable, Self::Avx2]
                };
            }
        }
        &[Self::Portable]
    }

    /// `portable`, `avx2` or `avx512`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }
}
