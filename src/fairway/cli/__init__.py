"""The command line.

`main` finds the verb and turns errors into messages and exit codes. `commands` declares the verbs: options and help, in
one module each. `lazy` imports the declaration of a verb when it is used, and the module or package that carries it out
when it runs; everything else imports at the top. So `--help` and completion take a tenth of a second.

Shared by the verbs:

- `options/`: options that several verbs have; they import as little as `commands`.
- `input`, `files/`: read objects from `-f` and from a hub, and write objects to files.
- `client/`: connect to a hub, read objects, watch, wait, and explain what went wrong.
- `output`, `terminal`, `text`, `progress`, `errors`, `signals`: tables and documents, lines of text, progress bars,
  exit codes, Ctrl-C and SIGTERM.
"""
