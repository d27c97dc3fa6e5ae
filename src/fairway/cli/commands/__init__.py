"""The declarations of the verbs: options and help, one module per verb. They import next to nothing: see `lazy`."""
