//! SVG that is made on the server.
