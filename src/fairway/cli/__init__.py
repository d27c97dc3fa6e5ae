"""The command line.

`main` finds the verb and turns errors into messages and exit codes. A verb is one module, or a package whose
`command` module defines the click command. Verbs are imported on first use, so that `fairway --help` is fast.

Shared by the verbs:

- `client/`: connect to a hub, read objects, watch, wait, and explain what went wrong.
- `files/`: read objects from `-f`, and write objects to files.
- `options/`: options that several verbs have.
- `output`, `progress`, `errors`, `signals`: tables and documents, progress bars, exit codes, Ctrl-C and SIGTERM.
"""
