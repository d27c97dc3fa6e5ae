"""`fairway install` and `fairway uninstall`.

``differences`` compares an installation with a hub, and ``removal`` orders what is deleted.
"""
