//! A report as one page that needs no network.
//!
//! All content is in the page itself and is readable without JavaScript; the script adds sorting, tooltips, zoom and copying. A
//! content security policy in the head forbids every request.

use super::canvas::{Canvas, embedded};
use super::data::{Answer, Cell, Column, Figure, Report, Table, Timeline, WarningGroup};
use super::text::{escape, fixed, script_json};

/// Width of a figure in one column of the page, in both columns, and on a phone.
const COLUMN: f64 = 540.0;
const BOTH_COLUMNS: f64 = 1110.0;
const PHONE: f64 = 320.0;
/// Rows up to which the cases of an answer are shown without a click.
const OPEN_ROWS: usize = 12;
pub(super) const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The page of a report: one file that makes no requests. It opens with the answers.
pub fn html(report: &Report) -> String {
    let sections = [
        ("answer", "Answer", report.answers.iter().enumerate().map(answer).collect()),
        ("warnings", "Warnings", warnings(&report.warnings)),
        ("figures", "Figures", figures(&report.figures)),
        ("timelines", "Timelines", timelines(&report.timelines)),
        ("tables", "Tables", report.tables.iter().map(table).collect()),
        ("facts", "Machine, program and study", facts(report)),
        ("reproduce", "How to reproduce it", reproduce(report)),
    ];
    let shown = || sections.iter().filter(|(_, _, body)| !body.is_empty());
    let links: String = shown().map(|(id, name, _)| format!("<a href=\"#{id}\">{name}</a>\n")).collect();
    let bodies: String = shown()
        .map(|(id, name, body)| format!("<section id=\"{id}\">\n<h2>{name}</h2>\n{body}</section>\n"))
        .collect();
    let subtitle = match report.subtitle.is_empty() {
        true => String::new(),
        false => format!("<p class=\"subtitle\">{}</p>\n", escape(&report.subtitle)),
    };
    let data = serde_json::Value::Array(report.timelines.iter().map(super::timeline::script_data).collect());
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"generator\" content=\"rowloom\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <style>\n{figure_sheet}{page_sheet}</style>\n</head>\n<body>\n\
         <header>\n<h1>{title}</h1>\n{subtitle}<nav aria-label=\"Sections\">\n{links}</nav>\n</header>\n<main>\n\
         {bodies}</main>\n<div id=\"tip\" role=\"status\" hidden></div>\n\
         <script type=\"application/json\" id=\"timeline-data\">{data}</script>\n\
         <script>\n{script}</script>\n<script>\n{timeline_script}</script>\n</body>\n</html>\n",
        title = escape(&report.title),
        data = script_json(&data),
        figure_sheet = include_str!("assets/figure.css"),
        page_sheet = include_str!("assets/report.css"),
        script = include_str!("assets/report.js"),
        timeline_script = include_str!("assets/timeline.js"),
    )
}

fn answer((index, answer): (usize, &Answer)) -> String {
    let (question, sentence) = (escape(&answer.question), escape(&answer.sentence));
    let cases = answer.cases.as_ref().map_or(String::new(), |cases| {
        let rows = cases.rows.len();
        let open = if rows <= OPEN_ROWS { " open" } else { "" };
        let title = escape(&cases.title);
        format!("<details{open}>\n<summary>{title}</summary>\n{}</details>\n", table_body(cases))
    });
    let class = if answer.cases.is_some() { " table" } else { "" };
    format!(
        "<div class=\"card answer{class}\" id=\"answer-{index}\">\n<h3>{question}</h3>\n\
         <p class=\"sentence\">{sentence}</p>\n{cases}</div>\n"
    )
}

/// Groups of warnings, folded: a cause and a count each.
fn warnings(groups: &[WarningGroup]) -> String {
    let group = |group: &WarningGroup| {
        let items: String = group.items.iter().map(|item| format!("<li>{}</li>\n", escape(item))).collect();
        let (cause, count) = (escape(&group.cause), group.items.len());
        match count {
            0 => format!("<p>{cause}</p>\n"),
            _ => format!("<details>\n<summary>{cause} ({count})</summary>\n<ul>\n{items}</ul>\n</details>\n"),
        }
    };
    let all: String = groups.iter().map(group).collect();
    let count: usize = groups.iter().map(|group| group.items.len().max(1)).sum();
    match groups {
        [] => String::new(),
        _ => {
            let (warnings, causes) = (counted(count, "warning"), counted(groups.len(), "cause"));
            format!(
                "<details class=\"warnings\">\n<summary>{warnings} with {causes}</summary>\n{all}</details>\n"
            )
        }
    }
}

/// `1 warning`, `2 warnings`.
fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

fn facts(report: &Report) -> String {
    let mut groups = String::new();
    for (name, pairs) in &report.facts {
        let rows: String = pairs
            .iter()
            .map(|(name, value)| format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(value)))
            .collect();
        groups += &format!("<div class=\"card\">\n<h3>{}</h3>\n<dl>\n{rows}</dl>\n</div>\n", escape(name));
    }
    if groups.is_empty() { groups } else { format!("<div class=\"cards\">\n{groups}</div>\n") }
}

fn figures(figures: &[Figure]) -> String {
    let all: String = figures.iter().map(figure).collect();
    if all.is_empty() { all } else { format!("<div class=\"figures\">\n{all}</div>\n") }
}

fn figure(figure: &Figure) -> String {
    // One drawing for each width of the page; the style sheet shows one at a time.
    let (class, widths): (_, &[(&str, f64)]) = match super::panels::is_wide(figure) {
        true => (" both", &[("wide", BOTH_COLUMNS), ("middle", COLUMN), ("narrow", PHONE)]),
        false => ("", &[("wide", COLUMN), ("narrow", PHONE)]),
    };
    let mut drawings = String::new();
    for (class, width) in widths {
        let mut canvas = Canvas::default();
        let height = super::panels::draw(figure, &mut canvas, *width);
        drawings += &embedded(class, &figure.title, *width, &canvas.into_svg(), height);
        drawings.push('\n');
    }
    let caption = match figure.caption.is_empty() {
        true => String::new(),
        false => format!("<figcaption>{}</figcaption>\n", escape(&figure.caption)),
    };
    let (id, title) = (escape(&figure.id), escape(&figure.title));
    format!(
        "<figure class=\"card{class}\" id=\"figure-{id}\">\n<h3>{title}</h3>\n{drawings}{caption}</figure>\n"
    )
}

fn timelines(timelines: &[Timeline]) -> String {
    let one = |(index, timeline): (usize, &Timeline)| {
        let mut canvas = Canvas::default();
        let height = super::timeline::draw(timeline, &mut canvas, BOTH_COLUMNS);
        let still = embedded("still", &timeline.title, BOTH_COLUMNS, &canvas.into_svg(), height);
        let (title, caption) = (escape(&timeline.title), escape(&timeline.caption));
        format!(
            "<figure class=\"card timeline\" data-timeline=\"{index}\">\n<h3>{title}</h3>\n{still}\n\
             <figcaption>{caption}</figcaption>\n</figure>\n"
        )
    };
    timelines.iter().enumerate().map(one).collect()
}

fn table(table: &Table) -> String {
    let (id, title) = (escape(&table.id), escape(&table.title));
    let body = table_body(table);
    format!("<div class=\"card table\" id=\"table-{id}\">\n<h3>{title}</h3>\n{body}</div>\n")
}

/// The caption and the cells of a table.
fn table_body(table: &Table) -> String {
    let heads: String = table.columns.iter().map(head).collect();
    let mut rows = String::new();
    for row in &table.rows {
        rows += "<tr>";
        for index in 0..table.columns.len() {
            rows += &cell(row.get(index).unwrap_or(&Cell::Empty));
        }
        rows += "</tr>\n";
    }
    if rows.is_empty() {
        rows =
            format!("<tr class=\"none\"><td colspan=\"{}\">No data</td></tr>\n", table.columns.len().max(1));
    }
    let title = escape(&table.title);
    let caption = match table.caption.is_empty() {
        true => String::new(),
        false => format!("<p class=\"caption\">{}</p>\n", escape(&table.caption)),
    };
    format!(
        "{caption}<div class=\"box\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\">\n<table>\n\
         <thead>\n<tr>{heads}</tr>\n</thead>\n<tbody>\n{rows}</tbody>\n</table>\n</div>\n"
    )
}

fn head(column: &Column) -> String {
    let unit = column.unit.as_ref().filter(|unit| !unit.is_empty());
    let unit = unit.map_or(String::new(), |unit| format!(" <span class=\"unit\">{}</span>", escape(unit)));
    let class = if column.numeric { " class=\"numeric\"" } else { "" };
    format!("<th scope=\"col\"{class}>{}{unit}</th>", escape(&column.name))
}

fn cell(cell: &Cell) -> String {
    match cell {
        // Long names break after punctuation; short ones stay whole.
        Cell::Text(text) => {
            format!("<td>{}</td>", escape(text).replace(',', ",<wbr>").replace('_', "_<wbr>"))
        }
        Cell::Number(value, digits) if value.is_finite() => {
            // A double has no more than 17 significant digits.
            format!(
                "<td class=\"numeric\" data-value=\"{value}\">{}</td>",
                fixed(*value, (*digits).min(17), false)
            )
        }
        Cell::Number(..) | Cell::Empty => "<td class=\"none\"></td>".into(),
    }
}

fn reproduce(report: &Report) -> String {
    let mut body = String::new();
    for (what, command) in &report.commands {
        body += &format!(
            "<div class=\"command\">\n<p>{}</p>\n<pre tabindex=\"0\"><code>{}</code></pre>\n</div>\n",
            escape(what),
            escape(command)
        );
    }
    if !report.configuration.is_empty() {
        body += &format!(
            "<details class=\"command\">\n<summary>Configuration with all defaults</summary>\n\
             <pre tabindex=\"0\"><code>{}</code></pre>\n</details>\n",
            escape(&report.configuration)
        );
    }
    if body.is_empty() { body } else { format!("<div class=\"card\">\n{body}</div>\n") }
}
