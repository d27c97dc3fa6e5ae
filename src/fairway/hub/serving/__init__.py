"""HTTP: connections, paths, bodies, the forms of answers, discovery, OpenAPI, reading and watching."""
