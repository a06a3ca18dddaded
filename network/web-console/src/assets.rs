//! The console's web pages (HTML, scripts, styles), which `make console` builds from `web/` and the
//! binary embeds.

use axum::Router;
use axum::http::header;
use axum::routing::get;

macro_rules! bundle {
    ($($path:literal, $file:literal, $kind:literal;)*) => {
        /// Each file's path on the port, its type and its bytes.
        const BUNDLE: &[(&str, &str, &[u8])] =
            &[$(($path, $kind, include_bytes!(concat!("../dist/", $file)))),*];
    };
}

bundle! {
    "/", "index.html", "text/html; charset=utf-8";
    "/console.js", "console.js", "text/javascript; charset=utf-8";
    "/console.css", "console.css", "text/css; charset=utf-8";
    "/licenses.md", "licenses.md", "text/plain; charset=utf-8";
    "/favicon.svg", "favicon.svg", "image/svg+xml";
}

pub fn router() -> Router {
    BUNDLE.iter().fold(Router::new(), |router, &(path, kind, bytes)| {
        router.route(path, get(move || async move { ([(header::CONTENT_TYPE, kind)], bytes) }))
    })
}
