//! Messages with entries of a matrix, from the rank that parsed them to the rank that owns their rows.
//!
//! A message is a flag, whether its sender has more entries, then the rows of all entries, then their columns, then their values
//! (left out for a pattern), in the byte order of the machine.

use crate::matrix::Scalar;
use crate::matrix::io::matrix_market::part::Entry;

/// Set in the row of an entry whose mirror image the file lists instead.
const MIRRORED: u64 = 1 << 63;

/// Bytes of the flag, which keep the numbers behind it aligned in their own size.
const FLAG_BYTES: usize = 8;

/// The message with `entries`.
pub fn pack<T: Scalar>(entries: &[Entry<T>], is_left: bool, has_values: bool) -> Vec<u8> {
    let value_bytes = if has_values { size_of::<T>() } else { 0 };
    let mut message = Vec::with_capacity(FLAG_BYTES + entries.len() * (12 + value_bytes));
    message.extend_from_slice(&u64::from(is_left).to_ne_bytes());
    for entry in entries {
        let row = entry.row | if entry.mirrored { MIRRORED } else { 0 };
        message.extend_from_slice(&row.to_ne_bytes());
    }
    entries.iter().for_each(|entry| message.extend_from_slice(&entry.column.to_ne_bytes()));
    if has_values {
        entries.iter().for_each(|entry| message.extend_from_slice(bytemuck::bytes_of(&entry.value)));
    }
    message
}

/// Calls `add` with each entry of a message; whether its sender has more, or `None` if the message is not valid.
pub fn unpack<T: Scalar>(message: &[u8], has_values: bool, add: &mut dyn FnMut(Entry<T>)) -> Option<bool> {
    let value_bytes = if has_values { size_of::<T>() } else { 0 };
    let (flag, entries) = message.split_at_checked(FLAG_BYTES)?;
    let count = entries.len() / (12 + value_bytes);
    if entries.len() != count * (12 + value_bytes) {
        return None;
    }
    let (rows, rest) = entries.split_at(count * 8);
    let (columns, values) = rest.split_at(count * 4);
    for index in 0..count {
        let row: u64 = bytemuck::pod_read_unaligned(&rows[index * 8..][..8]);
        let value = match has_values {
            true => bytemuck::pod_read_unaligned(&values[index * value_bytes..][..value_bytes]),
            false => T::ONE,
        };
        add(Entry {
            row: row & !MIRRORED,
            column: bytemuck::pod_read_unaligned(&columns[index * 4..][..4]),
            mirrored: row & MIRRORED != 0,
            value,
        });
    }
    Some(flag.iter().any(|byte| *byte != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_arrive_as_they_were_sent_and_damaged_messages_are_refused() {
        let entry = |row, column, mirrored, value| Entry { row, column, mirrored, value };
        let entries =
            [entry(1 << 40, u32::MAX - 1, true, -0.5f32), entry(0, 0, false, 1.0), entry(7, 3, false, 2.5)];
        for (is_left, has_values) in [(true, true), (false, true), (true, false)] {
            let mut arrived = Vec::new();
            let message = pack(&entries, is_left, has_values);
            assert_eq!(unpack(&message, has_values, &mut |entry| arrived.push(entry)), Some(is_left));
            let one = |entry: &Entry<f32>| if has_values { *entry } else { Entry { value: 1.0, ..*entry } };
            assert_eq!(arrived, entries.iter().map(one).collect::<Vec<_>>());
            assert_eq!(unpack::<f32>(&message[..message.len() - 1], has_values, &mut |_| {}), None);
        }
        assert_eq!(unpack::<f64>(&[1], true, &mut |_| {}), None);
    }
}
