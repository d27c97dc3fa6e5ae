"""`fairway hub`: run the embedded hub (`process`), back up and restore its data (`data`), renew its keys (`pki`)."""
