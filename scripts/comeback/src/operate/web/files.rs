//! The files of all pages.

/// The path, the type and the content of each file.
pub const FILES: [(&str, &str, &str); 3] = [
    ("/page.css", "text/css; charset=utf-8", include_str!("page.css")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("page.js")),
    ("/icon.svg", "image/svg+xml", include_str!("icon.svg")),
];
