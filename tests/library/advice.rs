//! What the documents say of the library's advice is so, and the words of Rust name public items.

use std::path::Path;

use rowloom::internal::error::Advice;

fn document(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name)).unwrap()
}

#[test]
fn the_words_of_rust_name_public_items() {
    let (public, mut count) = (document("public-api.txt"), 0);
    for &advice in Advice::ALL {
        // Every second part is between backquotes.
        for code in advice.in_rust().split('`').skip(1).step_by(2) {
            let called = code.split('(').next().unwrap();
            let item = match (called.strip_prefix('.'), called.split_once('.')) {
                _ if code.starts_with("rowloom ") || !code.contains('(') => continue,
                (Some(method), _) | (None, Some((_, method))) => format!("::{method}("),
                (None, None) => format!("::{}", called.replace("::<f64>", "")),
            };
            assert!(public.contains(&item), "{advice:?}: {item} is not public");
            count += 1;
        }
    }
    assert!(count > 15, "only {count} items were found");
}

#[test]
fn the_document_lists_every_advice() {
    let document = document("programs.md");
    for advice in Advice::ALL {
        assert!(document.contains(&format!("| `{}` |", advice.name())), "{advice:?}");
    }
}
