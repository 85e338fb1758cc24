//! One page that holds everything and asks nothing of the network.
//!
//! All that can be read is in the page itself; the script adds sorting, tips, zoom and copying. A policy in the head
//! forbids every request.

use super::data::{Cell, Column, Figure, Report, Table, Timeline};
use super::picture::{Canvas, embedded};
use super::text::{escape, fixed, script_json};

/// Width of a plot in a column of the page, of one that takes both columns, and of one on a phone.
const COLUMN: f64 = 540.0;
const BOTH_COLUMNS: f64 = 1110.0;
const PHONE: f64 = 320.0;
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The page of a report: one file, no requests, readable without JavaScript.
pub fn html(report: &Report) -> String {
    let sections = [
        ("facts", "Where and with what", facts(report)),
        ("figures", "Figures", figures(&report.figures)),
        ("timelines", "Timelines", timelines(&report.timelines)),
        ("tables", "Tables", report.tables.iter().map(table).collect()),
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
         {notes}{bodies}</main>\n<div id=\"tip\" role=\"status\" hidden></div>\n\
         <script type=\"application/json\" id=\"timeline-data\">{data}</script>\n\
         <script>\n{script}</script>\n<script>\n{timeline_script}</script>\n</body>\n</html>\n",
        title = escape(&report.title),
        notes = notes(&report.notes),
        data = script_json(&data),
        figure_sheet = include_str!("assets/figure.css"),
        page_sheet = include_str!("assets/report.css"),
        script = include_str!("assets/report.js"),
        timeline_script = include_str!("assets/timeline.js"),
    )
}

fn notes(notes: &[String]) -> String {
    if notes.is_empty() {
        return String::new();
    }
    let items: String = notes.iter().map(|note| format!("<li>{}</li>\n", escape(note))).collect();
    format!(
        "<aside class=\"notes\" aria-label=\"Notes\">\n<h2>Before you read the numbers</h2>\n<ul>\n{items}</ul>\n</aside>\n"
    )
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
    // One for each width of the page that calls for another; the sheet shows one at a time.
    let (class, widths): (_, &[(&str, f64)]) = match super::has_many_names(&figure.plot) {
        true => (" both", &[("wide", BOTH_COLUMNS), ("middle", COLUMN), ("narrow", PHONE)]),
        false => ("", &[("wide", COLUMN), ("narrow", PHONE)]),
    };
    let mut pictures = String::new();
    for (class, room) in widths {
        let mut canvas = Canvas::default();
        let height = super::draw(&figure.plot, &mut canvas, *room);
        pictures += &embedded(class, &figure.title, *room, &canvas.into_svg(), height);
        pictures.push('\n');
    }
    let caption = match figure.caption.is_empty() {
        true => String::new(),
        false => format!("<figcaption>{}</figcaption>\n", escape(&figure.caption)),
    };
    let (id, title) = (escape(&figure.id), escape(&figure.title));
    format!(
        "<figure class=\"card{class}\" id=\"figure-{id}\">\n<h3>{title}</h3>\n{pictures}{caption}</figure>\n"
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
    let (id, title) = (escape(&table.id), escape(&table.title));
    format!(
        "<div class=\"card table\" id=\"table-{id}\">\n<h3>{title}</h3>\n\
         <div class=\"box\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\">\n<table>\n\
         <thead>\n<tr>{heads}</tr>\n</thead>\n<tbody>\n{rows}</tbody>\n</table>\n</div>\n</div>\n"
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
        Cell::Text(text) => format!("<td>{}</td>", escape(text)),
        Cell::Number(value, digits) if value.is_finite() => {
            // More digits than a double has say nothing.
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
            "<details class=\"command\">\n<summary>Configuration, every value resolved</summary>\n\
             <pre tabindex=\"0\"><code>{}</code></pre>\n</details>\n",
            escape(&report.configuration)
        );
    }
    if body.is_empty() { body } else { format!("<div class=\"card\">\n{body}</div>\n") }
}
