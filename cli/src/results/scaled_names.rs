//! Matrix names of weak scaling, whose numbers grow with the number of threads or devices.

/// A matrix's name with `{1000*threads}`, `{1000*devices}` and `{100*cbrt(devices)}` replaced by their values.
pub(super) fn with_counts(name: &str, threads: usize, devices: usize) -> std::result::Result<String, String> {
    let mut expanded = String::new();
    let mut rest = name;
    while let Some((before, behind)) = rest.split_once('{') {
        let wrong = || {
            format!(
                "{name}: braces hold a number times threads, devices or cbrt(devices), such as {{1000*threads}}"
            )
        };
        let (inside, after) = behind.split_once('}').ok_or_else(wrong)?;
        let (number, of) = inside.split_once('*').ok_or_else(wrong)?;
        let factor = match of.trim() {
            "threads" => threads,
            "devices" => devices,
            // The side of a cube of which each device has a part of equal size.
            "cbrt(devices)" => {
                let number: u32 = number.trim().replace('_', "").parse().map_err(|_| wrong())?;
                expanded += before;
                expanded += &(f64::from(number) * (devices as f64).cbrt()).round().to_string();
                rest = after;
                continue;
            }
            _ => return Err(wrong()),
        };
        let number: usize = number.trim().replace('_', "").parse().map_err(|_| wrong())?;
        expanded += before;
        expanded += &number.checked_mul(factor).ok_or_else(wrong)?.to_string();
        rest = after;
    }
    Ok(expanded + rest)
}

/// A matrix's name with `{1000*ranks}` replaced by its value; other braces stay.
pub(super) fn with_ranks(name: &str, ranks: usize) -> String {
    let mut expanded = String::new();
    let mut rest = name;
    while let Some((before, behind)) = rest.split_once('{') {
        let Some((inside, after)) = behind.split_once('}') else { break };
        let number = inside.split_once('*').filter(|(_, of)| of.trim() == "ranks");
        let number = number.and_then(|(number, _)| number.trim().replace('_', "").parse::<usize>().ok());
        expanded += before;
        expanded += &match number.and_then(|number| number.checked_mul(ranks)) {
            Some(number) => number.to_string(),
            None => format!("{{{inside}}}"),
        };
        rest = after;
    }
    expanded + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_side_of_a_cube_grows_with_the_cube_root_of_the_devices() {
        let side = |devices| with_counts("gen:stencil27,n={64*cbrt(devices)}", 1, devices).unwrap();
        assert_eq!(side(1), "gen:stencil27,n=64");
        assert_eq!(side(2), "gen:stencil27,n=81");
        assert_eq!(side(512), "gen:stencil27,n=512");
        assert!(with_counts("gen:stencil27,n={x*cbrt(devices)}", 1, 1).is_err());
    }
}
