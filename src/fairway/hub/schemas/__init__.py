"""What a document may hold: structural schemas, rules, formats, names, definitions of custom resources."""
