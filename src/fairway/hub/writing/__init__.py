"""From a wish to a commit: intake, judgement, create, update, patch, delete, subresources."""
