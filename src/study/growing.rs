//! Matrix names of weak scaling, whose numbers grow with the number of threads or devices.

/// A matrix's name with `{1000*threads}` and `{1000*devices}` replaced by their values.
pub(super) fn with_counts(name: &str, threads: usize, devices: usize) -> std::result::Result<String, String> {
    let mut expanded = String::new();
    let mut rest = name;
    while let Some((before, behind)) = rest.split_once('{') {
        let wrong =
            || format!("{name}: braces hold a number times threads or devices, such as {{1000*threads}}");
        let (inside, after) = behind.split_once('}').ok_or_else(wrong)?;
        let (number, of) = inside.split_once('*').ok_or_else(wrong)?;
        let factor = match of.trim() {
            "threads" => threads,
            "devices" => devices,
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
