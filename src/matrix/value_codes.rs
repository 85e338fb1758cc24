//! Codes of few bytes for the values of a matrix: places in a table of its distinct values, or single precision where that is exact.

use rayon::prelude::*;

use crate::error::{Error, Result};

/// Values of a parallel task; a multiple of four.
const TASK_VALUES: usize = 1 << 16;
/// Most values of tables with codes of one and of two bytes.
const BYTE_TABLE: usize = 1 << 8;
const SHORT_TABLE: usize = 1 << 16;
/// Two-byte codes are used for at least so many nonzeros per table entry: every chunk of A has a copy of the table.
const SHORT_TABLE_USES: usize = 256;
/// Values of a sample. Of 65,536 equally frequent values it has 14,500; where more than this part of it is distinct, there is no table.
const SAMPLED_VALUES: usize = 1 << 14;
const MOST_DISTINCT_OF_SAMPLE: f64 = 0.95;

/// How a value is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ValueCode {
    /// Not at all: the first value of the table is the value of all nonzeros.
    One = 0,
    /// One byte: a place in the table.
    Byte = 1,
    /// Two bytes: a place in the table.
    Short = 2,
    /// In single precision, which is exactly the value.
    Single = 3,
    /// As it is.
    Plain = 4,
}

impl ValueCode {
    /// Bytes of a code of a value of `value_bytes` bytes.
    pub fn bytes(self, value_bytes: u64) -> u64 {
        match self {
            Self::One => 0,
            Self::Byte => 1,
            Self::Short => 2,
            Self::Single => 4,
            Self::Plain => value_bytes,
        }
    }
}

/// The code of all values of a matrix, with its table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueCodes {
    /// The code.
    pub code: ValueCode,
    /// The bits of the distinct values, ascending; empty for codes without a table.
    pub table: Vec<u64>,
}

/// The bits of a value.
pub trait Bits: bytemuck::Pod + Send + Sync {
    /// Zero-extended.
    fn wide(self) -> u64;
}

impl Bits for u32 {
    fn wide(self) -> u64 {
        u64::from(self)
    }
}

impl Bits for u64 {
    fn wide(self) -> u64 {
        self
    }
}

impl ValueCodes {
    /// The values as they are.
    pub fn plain() -> Self {
        Self { code: ValueCode::Plain, table: Vec::new() }
    }

    /// The smallest code of these values. General values are recognised at the first of them. Runs in the rayon pool of the caller.
    pub fn of(bytes: &[u8], value_bytes: usize) -> Self {
        match value_bytes {
            4 => bytemuck::try_cast_slice::<u8, u32>(bytes).map_or(Self::plain(), Self::of_bits),
            8 => bytemuck::try_cast_slice::<u8, u64>(bytes).map_or(Self::plain(), Self::of_doubles),
            _ => Self::plain(),
        }
    }

    /// Whether these bytes are those of a double that has the same value in single precision.
    pub(super) fn is_single(bytes: &[u8]) -> bool {
        bytes.try_into().is_ok_and(|bytes| single(u64::from_ne_bytes(bytes)).is_some())
    }

    fn of_doubles(values: &[u64]) -> Self {
        let codes = Self::of_bits(values);
        let is_exact =
            || values.par_chunks(TASK_VALUES).all(|part| part.iter().all(|&bits| single(bits).is_some()));
        match codes.code {
            ValueCode::Plain if !values.is_empty() && is_exact() => Self { code: ValueCode::Single, ..codes },
            _ => codes,
        }
    }

    fn of_bits<B: Bits>(values: &[B]) -> Self {
        // To count values that are all different takes longer than to copy them.
        let Some(table) = Some(values).filter(|values| are_few(values)).and_then(distinct) else {
            return Self::plain();
        };
        let code = match table.len() {
            0 => return Self::plain(),
            1 => ValueCode::One,
            2..=BYTE_TABLE => ValueCode::Byte,
            most if values.len() >= SHORT_TABLE_USES.saturating_mul(most) => ValueCode::Short,
            _ => return Self::plain(),
        };
        Self { code, table }
    }

    /// Writes the codes of `values`; the rest of `to` becomes zero. An error if a value has no code. Not for plain values.
    pub fn write<B: Bits>(&self, values: &[B], to: &mut [u8]) -> Result<()> {
        let none = || {
            Error::Internal("a value of A has no code: it has changed since the values were counted".into())
        };
        let size = self.code.bytes(size_of::<B>() as u64) as usize;
        if size == 0 {
            return Ok(());
        }
        let places = Places::of(&self.table);
        let write = |(to, values): (&mut [u8], &[B])| -> Option<()> {
            let mut last = (u64::MAX, places.get(u64::MAX));
            let mut code_of = |bits: u64| {
                if bits != last.0 {
                    last = (bits, places.get(bits));
                }
                last.1
            };
            let (own, rest) = to.split_at_mut_checked(values.len() * size)?;
            rest.fill(0);
            for (to, value) in own.chunks_exact_mut(size).zip(values) {
                match self.code {
                    ValueCode::Byte => to.copy_from_slice(&[u8::try_from(code_of(value.wide())?).ok()?]),
                    ValueCode::Short => {
                        to.copy_from_slice(&u16::try_from(code_of(value.wide())?).ok()?.to_ne_bytes());
                    }
                    ValueCode::Single => to.copy_from_slice(&single(value.wide())?.to_ne_bytes()),
                    ValueCode::One | ValueCode::Plain => return None,
                }
            }
            Some(())
        };
        let tasks = to.par_chunks_mut(TASK_VALUES * size).zip(values.par_chunks(TASK_VALUES));
        tasks.map(write).collect::<Option<()>>().ok_or_else(none)
    }

    /// Writes the table for values of `value_bytes` bytes.
    pub fn write_table(&self, value_bytes: usize, to: &mut [u8]) {
        for (to, bits) in to.chunks_exact_mut(value_bytes).zip(&self.table) {
            match value_bytes {
                4 => to.copy_from_slice(&(*bits as u32).to_ne_bytes()),
                _ => to.copy_from_slice(&bits.to_ne_bytes()),
            }
        }
    }
}

/// The number in single precision that a processor converts to these bits of a double. None for NaN: processors do not keep its bits.
fn single(bits: u64) -> Option<f32> {
    let value = f64::from_bits(bits);
    let single = value as f32;
    (f64::from(single).to_bits() == bits && !value.is_nan()).then_some(single)
}

/// Whether a sample of the values allows that they are few.
fn are_few<B: Bits>(values: &[B]) -> bool {
    let stride = values.len() / SAMPLED_VALUES;
    if stride < 4 {
        return true;
    }
    let (mut sample, mut sampled) = (Places::default(), 0);
    for value in values.iter().step_by(stride) {
        sample.insert(value.wide());
        sampled += 1;
    }
    (sample.keys.len() as f64) < MOST_DISTINCT_OF_SAMPLE * f64::from(sampled)
}

/// The distinct values, ascending; `None` if there are too many for a table.
fn distinct<B: Bits>(values: &[B]) -> Option<Vec<u64>> {
    let insert = |mut set: Places, part: &[B]| {
        let mut last = None;
        for value in part.iter().map(|value| value.wide()) {
            if last != Some(value) {
                set.insert(value)?;
                last = Some(value);
            }
        }
        Some(set)
    };
    // Ends at the first thread that has too many for any table.
    let sets = values.par_chunks(TASK_VALUES * 4).try_fold(Places::default, insert);
    let both = |a: Places, b: Places| insert_all(a, &b.keys);
    let mut table = sets.try_reduce(Places::default, both)?.keys;
    table.sort_unstable();
    Some(table)
}

fn insert_all(mut set: Places, keys: &[u64]) -> Option<Places> {
    for &key in keys {
        set.insert(key)?;
    }
    Some(set)
}

/// A hash table from bits to their place in a list, with linear probing.
#[derive(Debug, Default)]
struct Places {
    keys: Vec<u64>,
    /// The place of a key plus 1; 0 in free slots. A power of two, at least twice as many as keys.
    slots: Vec<u32>,
}

impl Places {
    fn of(keys: &[u64]) -> Self {
        let mut places = Self { keys: keys.to_vec(), slots: Vec::new() };
        places.resize(keys.len());
        places
    }

    fn resize(&mut self, keys: usize) {
        self.slots = vec![0; (4 * keys).next_power_of_two().max(1 << 10)];
        for place in 0..self.keys.len() {
            let slot = self.slot(self.keys[place]);
            self.slots[slot] = place as u32 + 1;
        }
    }

    /// The slot of a key, or the free one where it would be.
    fn slot(&self, key: u64) -> usize {
        let last = self.slots.len() - 1;
        let mut at = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & last;
        while self.slots[at] != 0 && self.keys[self.slots[at] as usize - 1] != key {
            at = (at + 1) & last;
        }
        at
    }

    fn get(&self, key: u64) -> Option<u32> {
        self.slots.get(self.slot(key)).and_then(|place| place.checked_sub(1))
    }

    /// Adds a key; `None` where there are too many for a table.
    fn insert(&mut self, key: u64) -> Option<()> {
        if 2 * self.keys.len() >= self.slots.len() {
            self.resize(self.keys.len() * 2);
        }
        let slot = self.slot(key);
        if self.slots[slot] == 0 {
            if self.keys.len() >= SHORT_TABLE {
                return None;
            }
            self.keys.push(key);
            self.slots[slot] = self.keys.len() as u32;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes_of(values: &[f64]) -> ValueCodes {
        ValueCodes::of(bytemuck::cast_slice(values), 8)
    }

    /// The bits that a kernel gets from written codes.
    fn unpacked(codes: &ValueCodes, bytes: &[u8], at: usize) -> u64 {
        match codes.code {
            ValueCode::One => codes.table[0],
            ValueCode::Byte => codes.table[usize::from(bytes[at])],
            ValueCode::Short => {
                codes.table[usize::from(u16::from_ne_bytes([bytes[2 * at], bytes[2 * at + 1]]))]
            }
            ValueCode::Single => {
                f64::from(f32::from_ne_bytes(bytes[4 * at..4 * at + 4].try_into().unwrap())).to_bits()
            }
            ValueCode::Plain => panic!("plain values are not written"),
        }
    }

    #[test]
    fn the_code_is_the_smallest_that_gives_back_every_bit() {
        let nnz = 70_003;
        for (distinct, expected) in [
            (1usize, ValueCode::One),
            (2, ValueCode::Byte),
            (255, ValueCode::Byte),
            (256, ValueCode::Byte),
            (257, ValueCode::Short),
            (273, ValueCode::Short),
            (274, ValueCode::Plain),
            (nnz, ValueCode::Plain),
        ] {
            let special = [-0.0, 0.0, f64::from_bits(0x7ff0_0000_0000_0001), f64::NAN, f64::NEG_INFINITY];
            let of_place = |place: usize| special.get(place).copied().unwrap_or(place as f64 / 3.0);
            let values: Vec<f64> = (0..nnz).map(|at| of_place((nnz - at) % distinct)).collect();
            let codes = codes_of(&values);
            assert_eq!(codes.code, expected, "{distinct}");
            if expected == ValueCode::Plain {
                continue;
            }
            let size = codes.code.bytes(8) as usize;
            let mut bytes = vec![0xa5; (nnz + 1) * size];
            codes.write(bytemuck::cast_slice::<f64, u64>(&values), &mut bytes).unwrap();
            for (at, value) in values.iter().enumerate() {
                assert_eq!(unpacked(&codes, &bytes, at), value.to_bits(), "{distinct}: value {at}");
            }
            assert!(bytes[nnz * size..].iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn a_table_of_two_byte_codes_is_found_although_most_of_a_sample_differs() {
        let mut random = 1u64;
        let mut draw = |most: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % most
        };
        let values: Vec<f64> =
            (0..SHORT_TABLE * SHORT_TABLE_USES).map(|_| draw(1 << 16) as f64 / 3.0).collect();
        assert_eq!(codes_of(&values).code, ValueCode::Short);
        let values: Vec<f64> = (0..1 << 20).map(|_| draw(1 << 31) as f64 / 3.0).collect();
        assert!(!are_few(bytemuck::cast_slice::<f64, u64>(&values)));
    }

    #[test]
    fn single_precision_is_used_only_where_every_bit_comes_back() {
        let mut values: Vec<f64> = (0..70_000).map(|at| f64::from(at as f32 / 7.0)).collect();
        values.extend([-0.0, f64::from(f32::MIN_POSITIVE / 8.0), f64::INFINITY]);
        let codes = codes_of(&values);
        assert_eq!(codes.code, ValueCode::Single);
        let mut bytes = vec![0; 4 * values.len()];
        codes.write(bytemuck::cast_slice::<f64, u64>(&values), &mut bytes).unwrap();
        assert!((0..values.len()).all(|at| unpacked(&codes, &bytes, at) == values[at].to_bits()));
        for other in [0.1, f64::NAN, f64::from_bits(1), f64::MAX] {
            *values.last_mut().unwrap() = other;
            assert_eq!(codes_of(&values).code, ValueCode::Plain, "{other}");
        }
    }

    #[test]
    fn a_value_that_was_not_counted_is_an_error() {
        let codes = codes_of(&[1.0, 2.0, 1.0]);
        assert!(codes.write(&[3.0f64.to_bits()], &mut [0; 4]).is_err());
        assert_eq!(codes_of(&[]).code, ValueCode::Plain);
    }
}
