//! The SIMD instruction sets of the processor.

/// The expression for an instruction set: those of x86 are compiled only there. Returns from the function that uses it.
macro_rules! by_isa {
    ($isa:expr, $portable:expr, $avx2:expr, $avx512:expr) => {{
        #[cfg(target_arch = "x86_64")]
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
    /// The widest instruction set of this processor.
    pub fn detect() -> Self {
        Self::available().last().copied().unwrap_or(Self::Portable)
    }

    /// All instruction sets of this processor, the widest last.
    pub fn available() -> &'static [Self] {
        #[cfg(target_arch = "x86_64")]
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
