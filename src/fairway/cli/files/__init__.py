"""Objects in files.

`sources` finds and reads the files, `loader` decodes and checks the objects, and `export` writes objects to files.
"""
