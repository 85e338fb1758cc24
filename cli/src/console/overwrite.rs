//! Existing files are replaced only if Rowloom wrote them and they hold the same kind of output, or with `--force`.
//!
//! A file is recognised by its content, never by its name. An empty file counts as absent; pipes and devices are written
//! to as they are.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::read::GzDecoder;

use rowloom::internal::error::{Error, Result};
use rowloom::internal::files::MARK;
use rowloom::internal::matrix::info::SYNTHETIC_COMMENT;
use rowloom::internal::matrix::io::{cache, npy};
use rowloom::internal::trace::Trace;

/// Bytes at the start of a file that are searched for the mark.
const HEAD_BYTES: u64 = 256 << 10;
/// Bytes at the end of a file that are searched for the mark.
const TAIL_BYTES: i64 = 4 << 10;

/// A kind of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// The JSON object of a command.
    Json,
    /// Results as comma-separated values.
    Csv,
    /// Results as a Markdown table.
    Markdown,
    /// A timeline.
    Trace,
    /// A plan.
    Plan,
    /// A picture.
    Svg,
    /// The report of a study, or the performance explorer.
    Html,
    /// A cost model.
    Model,
    /// The configuration of a study.
    Configuration,
    /// A manual page.
    ManPage,
    /// A sparse matrix: Matrix Market, gzipped or not, `.npz` or `.rlm`.
    Matrix,
    /// A dense array: Matrix Market or `.npy`.
    Array,
}

impl Output {
    fn name(self) -> &'static str {
        match self {
            Self::Json => "a JSON report",
            Self::Csv => "CSV results",
            Self::Markdown => "Markdown results",
            Self::Trace => "a trace",
            Self::Plan => "a plan",
            Self::Svg => "an SVG picture",
            Self::Html => "an HTML report",
            Self::Model => "a cost model",
            Self::Configuration => "a study's configuration",
            Self::ManPage => "a manual page",
            Self::Matrix => "a matrix",
            Self::Array => "an array",
        }
    }

    /// Whether Rowloom wrote the file as this kind of output.
    fn wrote(self, path: &Path) -> io::Result<bool> {
        let head = head(File::open(path)?)?;
        let text = String::from_utf8_lossy(&head);
        let first_line = text.lines().next().unwrap_or_default();
        let leading =
            |prefix: &str| text.lines().take_while(|line| line.starts_with(prefix)).collect::<Vec<_>>();
        Ok(match self {
            Self::Json => {
                let start = without_blanks(&text, 64);
                start.starts_with("{\"rowloom\":\"") && start.contains("\",\"command\":\"")
            }
            Self::Csv => leading("# ").iter().any(|line| line.starts_with("# rowloom: ")),
            Self::Markdown => leading("- ").iter().any(|line| line.starts_with("- rowloom: ")),
            Self::Trace => Trace::is_own_start(&text),
            Self::Plan => {
                let start = without_blanks(&text, 256);
                start.starts_with("{\"version\":")
                    && start.contains("\"matrix\":{")
                    && start.contains("\"row_pointers\":")
            }
            Self::Svg => text.starts_with("<svg") && text.contains(&format!("<!-- {MARK} -->")),
            Self::Html => text.contains("<meta name=\"generator\" content=\"rowloom\">"),
            Self::Model => first_line.starts_with('#') && first_line.contains("rowloom calibrate"),
            Self::Configuration => {
                first_line.starts_with('#')
                    && (first_line.contains("rowloom study") || first_line.contains("rowloom demo"))
            }
            Self::ManPage => text.lines().any(|line| line.starts_with(".TH rowloom")),
            Self::Matrix if head.starts_with(&cache::MAGIC) => true,
            Self::Matrix if head.starts_with(b"PK") => has_marked_end(path)?,
            Self::Matrix if head.starts_with(&[0x1f, 0x8b]) => {
                let mut plain = Vec::new();
                // A damaged file is kept: another program may have written it, or the user may want to examine it.
                let _ = GzDecoder::new(&head[..]).take(HEAD_BYTES).read_to_end(&mut plain);
                is_marked_matrix_market(&String::from_utf8_lossy(&plain), "coordinate")
            }
            Self::Matrix => is_marked_matrix_market(&text, "coordinate"),
            Self::Array => npy::is_own(&head) || is_marked_matrix_market(&text, "array"),
        })
    }
}

/// An error if writing `output` to `path` would replace a file that is something else.
pub fn check(flag: &str, path: &Path, output: Output) -> Result<()> {
    let Ok(metadata) = std::fs::metadata(path) else { return Ok(()) };
    if !metadata.is_file() || metadata.len() == 0 {
        return Ok(());
    }
    // What cannot be read cannot be recognised.
    if output.wrote(path).unwrap_or(false) {
        return Ok(());
    }
    let (path, name) = (path.display(), output.name());
    Err(Error::usage(format!(
        "{flag} would replace {path}, which exists and is not {name} that rowloom wrote; name another file, or add --force"
    )))
}

fn head(file: File) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    file.take(HEAD_BYTES).read_to_end(&mut head)?;
    Ok(head)
}

/// Whether a zip archive ends in a comment with the mark.
fn has_marked_end(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len() as i64;
    file.seek(SeekFrom::End(-length.min(TAIL_BYTES)))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    Ok(String::from_utf8_lossy(&tail).contains(MARK))
}

fn is_marked_matrix_market(text: &str, format: &str) -> bool {
    let mut lines = text.lines();
    let banner = lines.next().unwrap_or_default();
    let marks = [format!("% {MARK}"), SYNTHETIC_COMMENT.to_owned()];
    banner.starts_with(&format!("%%MatrixMarket matrix {format} "))
        && lines
            .take_while(|line| line.starts_with('%'))
            .any(|line| marks.iter().any(|mark| line.starts_with(mark)))
}

/// The first `most` characters that are not blanks.
fn without_blanks(text: &str, most: usize) -> String {
    text.chars().filter(|character| !character.is_whitespace()).take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_recognised_by_its_content_and_its_kind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let samples = [
            (Output::Json, "{\n  \"rowloom\": \"0.1.0\",\n  \"command\": \"run\"\n}\n".to_owned()),
            (Output::Csv, "# host: a\n# rowloom: 0.1.0\nmatrix,k\n".into()),
            (Output::Markdown, "- host: a\n- rowloom: 0.1.0\n\n| matrix |\n".into()),
            (Output::Trace, "{\"displayTimeUnit\":\"ms\",\n\"metadata\":{\"rowloom_trace\":1}}".into()),
            (Output::Svg, format!("<svg>\n<!-- {MARK} -->\n</svg>\n")),
            (Output::Model, "# Measured by rowloom calibrate\n".into()),
            (Output::Configuration, "# Written by rowloom study\n".into()),
            (Output::ManPage, ".ie x\n.TH rowloom-run 1\n".into()),
            (Output::Matrix, format!("%%MatrixMarket matrix coordinate real general\n% {MARK}\n0 0 0\n")),
            (Output::Array, format!("%%MatrixMarket matrix array real general\n% {MARK}\n0 0\n")),
        ];
        for (output, text) in &samples {
            std::fs::write(&path, text).unwrap();
            for (other, _) in &samples {
                assert_eq!(
                    check("--flag", &path, *other).is_ok(),
                    output == other,
                    "{output:?} over {other:?}"
                );
            }
        }
        for foreign in
            ["{\"command\": \"run\"}", "a,b\n", "%%MatrixMarket matrix array real general\n0 0\n", "\0\0"]
        {
            std::fs::write(&path, foreign).unwrap();
            for (output, _) in &samples {
                let refused = check("--flag", &path, *output).unwrap_err();
                assert_eq!(refused.exit_code(), 2);
                assert!(refused.to_string().contains("--force"), "{refused}");
            }
        }
        std::fs::write(&path, "").unwrap();
        assert!(check("--flag", &path, Output::Json).is_ok());
        assert!(check("--flag", Path::new("/dev/null"), Output::Json).is_ok());
        assert!(check("--flag", folder.path(), Output::Json).is_ok());
    }
}
