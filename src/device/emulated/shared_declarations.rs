//! Rewrites the declarations of shared variables in a kernel's source, which macros cannot do.
//!
//! `__shared__ T name[n];` becomes a reference to memory that the emulator allocates and checks, and
//! `extern __shared__ T name[];` becomes a pointer to the launch's dynamic shared memory. Line numbers do not change. The
//! build script uses this file too.

/// The source with all shared variables allocated by the emulator, or a message about an unsupported declaration.
pub fn rewrite(text: &str) -> Result<String, String> {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("__shared__") {
        let before = &rest[..at];
        let after = &rest[at + "__shared__".len()..];
        let line = before.rsplit('\n').next().unwrap_or(before);
        if line.contains("//") {
            result.push_str(&rest[..at + "__shared__".len()]);
            rest = after;
            continue;
        }
        let (declaration, behind) =
            after.split_once(';').ok_or("a shared declaration does not end with a semicolon")?;
        match before.trim_end().strip_suffix("extern") {
            Some(before) => {
                result.push_str(before);
                result.push_str(&dynamic(declaration)?);
            }
            None => {
                result.push_str(before);
                result.push_str(&fixed(declaration)?);
            }
        }
        rest = behind;
    }
    result.push_str(rest);
    Ok(result)
}

/// Type, name and dimensions of `T name[n][m]`.
fn parts(declaration: &str) -> Result<(&str, &str, &str), String> {
    let refuse =
        || Err(format!("'__shared__{declaration};' must declare one variable without an initial value"));
    let (head, dimensions) = declaration.split_at(declaration.find('[').unwrap_or(declaration.len()));
    let head = head.trim_end();
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let name_start = head.rfind(|c: char| !is_word(c)).map_or(0, |at| at + 1);
    let (kind, name) = head.split_at(name_start);
    let one = !declaration.contains([',', '=', '\n']);
    if !one || kind.trim().is_empty() || name.is_empty() {
        refuse()
    } else {
        Ok((kind.trim(), name, dimensions))
    }
}

fn fixed(declaration: &str) -> Result<String, String> {
    let (kind, name, dimensions) = parts(declaration)?;
    Ok(format!(
        "static char {name}_key; typedef {kind} {name}_type{dimensions}; auto &{name} = *({name}_type *)\
         rowloom_shared(&{name}_key, \"{name}\", sizeof({name}_type), alignof({name}_type));"
    ))
}

fn dynamic(declaration: &str) -> Result<String, String> {
    let (kind, name, _) = parts(declaration)?;
    Ok(format!("{kind} *{name} = ({kind} *)rowloom_dynamic_shared();"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shared_declarations_are_rewritten() {
        let text = "// __shared__ T a;\nint b;\n  __shared__ double sum[4][32];\n  extern __shared__ float more[];\n";
        let rewritten = rewrite(text).unwrap();
        assert!(rewritten.starts_with("// __shared__ T a;\nint b;\n  static char sum_key;"), "{rewritten}");
        assert!(rewritten.contains("typedef double sum_type[4][32];"), "{rewritten}");
        assert!(rewritten.contains("float *more = (float *)rowloom_dynamic_shared();\n"), "{rewritten}");
        assert_eq!(rewritten.lines().count(), text.lines().count());
    }

    #[test]
    fn unsupported_declarations_are_refused() {
        for text in ["__shared__ int a, b;", "__shared__ int a = 3;", "__shared__ a;", "__shared__ int a[3]"]
        {
            assert!(rewrite(text).is_err(), "{text}");
        }
    }
}
