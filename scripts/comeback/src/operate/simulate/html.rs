//! The HTML page of a simulation, with tables and charts.

use crate::operate::simulate::rules::{Forecast, Scenario};

use super::facts::{self, Table};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;\
color:#222;background:#fff}table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.25rem .75rem \
.25rem 0;border-bottom:1px solid #ddd;vertical-align:top}figure{margin:2rem 0}svg{max-width:100%;height:auto}";

/// The page. It refers to no other file and has no script.
pub fn page(forecasts: &[Forecast], scenario: &Scenario, charts: &str) -> String {
    let sentence = escape(&facts::outage_sentence(scenario));
    let tables = [
        ("Policies", facts::settings(forecasts)),
        (facts::OUTAGE_TITLE, facts::outages(forecasts)),
        (facts::ATTEMPTS_TITLE, facts::attempts(forecasts)),
    ];
    let [policies, outage, attempts] = tables.map(|(title, of)| table(title, &of));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>comeback simulate</title>\n\
         <style>{STYLE}</style>\n<h1>{sentence}</h1>\n{policies}{outage}<figure>{charts}</figure>\n{attempts}</html>\n"
    )
}

fn table(title: &str, Table { header, rows }: &Table) -> String {
    let row = |cells: &[String], tag: &str| {
        let cell = |text: &String| format!("<{tag}>{}</{tag}>", escape(text));
        format!("<tr>{}</tr>\n", cells.iter().map(cell).collect::<String>())
    };
    let rows: String = rows.iter().map(|cells| row(cells, "td")).collect();
    format!("<h2>{}</h2>\n<table>\n{}{rows}</table>\n", escape(title), row(header, "th"))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operate::simulate::{charts, facts::tests::forecasts};

    #[test]
    fn the_page_has_tables_and_charts_and_needs_no_other_file() {
        let (forecasts, scenario) = forecasts();
        let charts = charts::draw(&forecasts, &scenario).unwrap();
        let page = page(&forecasts, &scenario, &charts);
        assert_eq!(page.matches("<table>").count(), 3);
        assert!(page.contains(&charts));
        assert!(page.contains("<th>R&amp;D &lt;eager&gt;</th>") && !page.contains("<eager>"));
        for outside in ["<script", "<link", "src=", "href=", "url(", "@import"] {
            assert!(!page.contains(outside), "{outside}");
        }
    }
}
