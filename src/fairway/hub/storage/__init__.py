"""Where objects are kept: the log on disk, the newest state in memory, the history for watches, backups."""
