//! Text and numbers for figures and pages: escaped, rounded, wrapped, and of a known width.

/// `text` escaped for XML and HTML, in elements and in quoted attributes.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(character),
            // XML forbids these characters, even escaped.
            c if c.is_control() || c == '\u{fffe}' || c == '\u{ffff}' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// JSON for a `<script>` element: no value can close the element.
pub(super) fn script_json(value: &serde_json::Value) -> String {
    value
        .to_string()
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

/// Whether a value can be drawn: it is finite, and sums and differences cannot overflow.
pub(super) fn drawable(value: f64) -> bool {
    value.is_finite() && value.abs() < 1e100
}

/// A value with four significant digits.
pub(super) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "not a number".into();
    }
    if value == 0.0 {
        return "0".into();
    }
    let magnitude = value.abs().log10().floor() as i32;
    if !(-4..7).contains(&magnitude) {
        return scientific(value);
    }
    fixed(value, usize::try_from(3 - magnitude).unwrap_or(0), true)
}

/// A value as a mantissa of up to four digits times a power of ten.
pub(super) fn scientific(value: f64) -> String {
    let text = format!("{value:.3e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    match trim_zeros(mantissa).as_str() {
        "1" => format!("10{}", superscript(exponent)),
        mantissa => format!("{}×10{}", signed(mantissa), superscript(exponent)),
    }
}

/// A value with at most (`trimmed`) or exactly that many digits after its decimal point, and thousands separated.
pub(super) fn fixed(value: f64, digits: usize, trimmed: bool) -> String {
    if !value.is_finite() {
        return "not a number".into();
    }
    let mut text = format!("{value:.digits$}");
    if trimmed {
        text = trim_zeros(&text);
    }
    if text.chars().all(|c| matches!(c, '-' | '0' | '.')) {
        text = text.trim_start_matches('-').into();
    }
    let whole = text.find('.').unwrap_or(text.len());
    let (integer, fraction) = text.split_at(whole);
    let (sign, integer) = integer.strip_prefix('-').map_or(("", integer), |rest| ("-", rest));
    let mut grouped = String::from(sign);
    for (index, digit) in integer.chars().enumerate() {
        if index > 0 && (integer.len() - index) % 3 == 0 && integer.len() > 4 {
            // A narrow space that does not break.
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    signed(&(grouped + fraction))
}

/// The unit for times of this size: its factor from seconds, and its name.
pub(super) fn time_unit(seconds: f64) -> (f64, &'static str) {
    match seconds {
        s if s >= 1.0 || s == 0.0 => (1.0, "s"),
        s if s >= 1e-3 => (1e3, "ms"),
        s if s >= 1e-6 => (1e6, "µs"),
        _ => (1e9, "ns"),
    }
}

/// `base` with `exponent` as a superscript.
pub(super) fn power(base: u32, exponent: i32) -> String {
    format!("{base}{}", superscript(&exponent.to_string()))
}

fn superscript(exponent: &str) -> String {
    let raised = |c| match c {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '4'..='9' => char::from_u32(u32::from('⁴') + (u32::from(c) - u32::from('4'))).unwrap_or(c),
        _ => '⁰',
    };
    exponent.chars().map(raised).collect()
}

fn trim_zeros(text: &str) -> String {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').into(),
        false => text.into(),
    }
}

fn signed(text: &str) -> String {
    text.replace('-', "−")
}

/// An upper estimate of the width of `text` in common sans serif fonts of `size`.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    let em = |character: char| match character {
        'i' | 'j' | 'l' | '\'' | '|' | '!' | ' ' | '.' | ',' | ':' | ';' | '\u{202f}' => 0.34,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '-' | '/' | 'I' => 0.43,
        'm' | 'M' | 'W' | '%' | '@' => 1.0,
        'w' | '+' | '=' | '<' | '>' | '×' | '−' | '→' | '·' => 0.85,
        'A'..='Z' => 0.75,
        c if u32::from(c) >= 0x1100 => 1.05,
        _ => 0.65,
    };
    text.chars().map(em).sum::<f64>() * size
}

/// `text` in lines no wider than `width`. Lines break at spaces; a longer word breaks after punctuation, and anywhere
/// where it has none. Nothing is left out.
pub(super) fn wrapped(text: &str, size: f64, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let mut pieces = broken(word, size, width).into_iter();
        let Some(first) = pieces.next() else { continue };
        match lines.last_mut() {
            Some(line)
                if text_width(line, size) + text_width(" ", size) + text_width(&first, size) <= width =>
            {
                line.push(' ');
                line.push_str(&first);
            }
            _ => lines.push(first),
        }
        lines.extend(pieces);
    }
    lines
}

/// A word in pieces no wider than `width`, of one character at least.
fn broken(word: &str, size: f64, width: f64) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    let mut piece = String::new();
    for character in word.chars() {
        if !piece.is_empty() && text_width(&piece, size) + text_width(&character.to_string(), size) > width {
            let end = piece.rfind(|c| ",;:/_-=".contains(c)).map_or(piece.len(), |at| at + 1);
            let rest = piece.split_off(end);
            pieces.push(std::mem::replace(&mut piece, rest));
        }
        piece.push(character);
    }
    pieces.push(piece);
    pieces
}
